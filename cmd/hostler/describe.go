package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// Bounds of a description. What is longer is shown by other commands.
const (
	describedEvents  = 10
	describedRuns    = 10
	describedObjects = 20
	describedLines   = 10       // of the output of a hook or main process
	describedLog     = 16 << 10 // bytes that are read for these
)

// description is what is known about a pool, a claim or a container.
type description struct {
	Kind       string             `json:"kind"`
	ID         string             `json:"id"`
	Pool       *client.Pool       `json:"pool,omitempty"`
	Workload   *client.Workload   `json:"workload,omitempty"`
	Claim      *client.Claim      `json:"claim,omitempty"`
	Container  *client.Container  `json:"container,omitempty"`
	Containers []client.Container `json:"containers,omitempty"` // of the pool, the newest
	Claims     []client.Claim     `json:"claims,omitempty"`     // that are live, the newest
	Runs       []client.Run       `json:"runs"`                 // of hooks, the newest, in their order
	Log        string             `json:"log,omitempty"`        // the last lines that the main process printed
	Events     []client.Event     `json:"events"`               // the newest, in their order
	Findings   []client.Finding   `json:"findings"`             // of hostler doctor
	Next       []string           `json:"next"`                 // what to do
	Missing    []string           `json:"missing,omitempty"`    // what could not be read, and why
}

func newDescribeCmd() *cobra.Command {
	return newGroupCmd("describe", "Show all about one pool, claim or container",
		newDescribeOf("pool WORKLOAD", "Show all about a pool: its containers and claims, failed hooks, events and findings, and what to do",
			"  hostler describe pool greeter", workloadIDs, describePool),
		newDescribeOf("claim CLAIM", "Show all about a claim: its steps, hooks with their output, events and findings, and what to do",
			"  hostler describe claim 5bd9a1c2", claimIDs, describeClaim),
		newDescribeOf("container CONTAINER", "Show all about a container: its hooks, the output of its main process, events and findings, and what to do",
			"  hostler describe container df05cec0", containerIDs, describeContainer),
	)
}

// newDescribeOf returns the command that describes objects of a kind.
func newDescribeOf(use, short, example string, ids func(context.Context, *client.Client) ([]completion, error),
	describe func(context.Context, *describer, string) error,
) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			d := &describer{Client: c, description: description{
				Kind: cmd.Name(), Runs: []client.Run{}, Events: []client.Event{}, Findings: []client.Finding{}, Next: []string{},
			}}
			if err := describe(ctx, d, args[0]); err != nil {
				return err
			}
			d.addNext()
			return r.printResult(cmd.OutOrStdout(), d.description, func(w io.Writer) error { return printDescription(w, d.description) })
		}),
		ValidArgsFunction: r.complete(ids),
	}
	r.flags(cmd)
	return cmd
}

// describer collects a description. The object itself must be readable. What else
// cannot be read, such as with a tenant's credential, is Missing.
type describer struct {
	*client.Client
	description
	lastGone string // of a pool that fails: its newest container that is gone
}

// add reads a part of the description.
func (d *describer) add(what string, read func() error) {
	err := read()
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		err = errors.New(strings.TrimSpace(e.Detail))
	}
	d.Missing = append(d.Missing, what+": "+err.Error())
}

func describePool(ctx context.Context, d *describer, id string) error {
	p, err := d.Client.Pool(ctx, id)
	if err != nil {
		return err
	}
	d.ID, d.description.Pool = p.Workload, &p
	d.add("the workload", func() error {
		w, err := d.Client.Workload(ctx, id)
		d.description.Workload = &w
		if err != nil {
			d.description.Workload = nil
		}
		return err
	})
	d.add("its containers", func() (err error) {
		d.description.Containers, err = d.Client.Containers(ctx, client.ContainerFilter{Workload: id, Newest: true, Limit: describedObjects})
		return err
	})
	d.add("its claims", func() (err error) {
		d.description.Claims, err = d.Client.Claims(ctx, client.ClaimFilter{Workload: id, Newest: true, Limit: describedObjects})
		return err
	})
	if p.Fill.Failures > 0 {
		d.addLastGone(ctx, id)
	}
	failed := slices.DeleteFunc(typedAs[client.RunState](runStates), func(s client.RunState) bool {
		return s == client.RunSucceeded || s == client.RunRunning || s == client.RunSkipped
	})
	d.addRuns(ctx, client.RunFilter{Workload: id, States: failed})
	d.addEvents(ctx, client.EventFilter{Workload: id})
	d.addFindings(ctx, func(f client.Finding) bool { return f.Workload == id })
	return nil
}

// addLastGone adds the newest container of a pool that is gone, and what it printed.
func (d *describer) addLastGone(ctx context.Context, workload string) {
	d.add("its last container", func() error {
		gone, err := d.Client.Containers(ctx, client.ContainerFilter{
			Workload: workload, States: []client.ContainerState{client.ContainerDestroyed}, Newest: true, Limit: 1,
		})
		if len(gone) > 0 {
			d.description.Containers = append(d.description.Containers, gone...)
			d.lastGone = gone[0].ID
			d.addLog(ctx, d.lastGone)
		}
		return err
	})
}

func describeClaim(ctx context.Context, d *describer, id string) error {
	c, err := d.GetClaim(ctx, id)
	if err != nil {
		return err
	}
	d.ID, d.description.Claim = c.ID, &c
	if c.Container != "" {
		d.add("its container", func() error {
			b, err := d.Client.Container(ctx, c.Container)
			if err == nil {
				d.description.Container = &b
			}
			return err
		})
	}
	d.addRuns(ctx, client.RunFilter{Claim: c.ID})
	if d.description.Container != nil && d.description.Container.Claim == c.ID {
		d.addLog(ctx, c.Container)
	}
	d.addEvents(ctx, client.EventFilter{Claim: c.ID})
	d.addFindings(ctx, func(f client.Finding) bool { return f.Claim == c.ID })
	return nil
}

func describeContainer(ctx context.Context, d *describer, id string) error {
	b, err := d.Client.Container(ctx, id)
	if err != nil {
		return err
	}
	d.ID, d.description.Container = b.ID, &b
	if b.Claim != "" {
		d.add("its claim", func() error {
			c, err := d.GetClaim(ctx, b.Claim)
			if err == nil {
				d.description.Claim = &c
			}
			return err
		})
	}
	d.addRuns(ctx, client.RunFilter{Container: b.ID})
	d.addLog(ctx, b.ID)
	d.addEvents(ctx, client.EventFilter{Container: b.ID})
	d.addFindings(ctx, func(f client.Finding) bool { return f.Container == b.ID })
	return nil
}

// addRuns adds the newest attempts of hooks that match.
func (d *describer) addRuns(ctx context.Context, f client.RunFilter) {
	f.Newest, f.Limit = true, describedRuns
	d.add("its hooks", func() error {
		runs, err := d.Client.Runs(ctx, f)
		slices.Reverse(runs)
		d.description.Runs = append(d.description.Runs, runs...)
		return err
	})
}

// addLog adds the last lines that the main process of a container printed, if the
// server still has them.
func (d *describer) addLog(ctx context.Context, id string) {
	d.add("what its main process printed", func() error {
		logs, err := d.ContainerLogs(ctx, id, describedLog)
		if err != nil {
			return err
		}
		defer logs.Close() //nolint:errcheck // it was only read
		text, err := io.ReadAll(io.LimitReader(logs, describedLog))
		d.Log = lastLines(string(text), describedLines)
		return err
	})
}

// addEvents adds the newest events that match.
func (d *describer) addEvents(ctx context.Context, f client.EventFilter) {
	d.add("its events", func() error {
		page, err := d.LastEvents(ctx, client.EventQuery{EventFilter: f}, describedEvents)
		d.description.Events = append(d.description.Events, page.Items...)
		return err
	})
}

// addFindings adds what doctor reports about the object.
func (d *describer) addFindings(ctx context.Context, isAbout func(client.Finding) bool) {
	d.add("the findings of hostler doctor", func() error {
		report, err := d.Doctor(ctx)
		for _, f := range report.Findings {
			if isAbout(f) {
				d.Findings = append(d.Findings, f)
			}
		}
		return err
	})
}

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
