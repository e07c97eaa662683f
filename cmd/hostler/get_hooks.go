package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// configuredHook is a hook as it is applied, with what its attempts on record
// have taken. Skipped hooks are no attempts.
type configuredHook struct {
	At        string          `json:"at"` // the point, or the events
	Hook      string          `json:"hook"`
	Action    string          `json:"action"`
	OnError   string          `json:"on_error"`
	Timeout   float64         `json:"timeout_ms"`
	Attempts  int             `json:"attempts"`
	Failures  int             `json:"failures"`
	Average   float64         `json:"average_ms"`
	P95       float64         `json:"p95_ms"`
	Max       float64         `json:"max_ms"`
	Slow      bool            `json:"slow,omitempty"` // a hook of a wait that takes longer than slowWaitHook
	LastState client.RunState `json:"last_state,omitempty"`
	LastAt    *time.Time      `json:"last_at,omitempty"`
}

func newGetHooksCmd() *cobra.Command {
	var r remote
	var normalized bool
	cmd := &cobra.Command{
		Use: "hooks WORKLOAD|CONTAINER", Aliases: []string{"hook"},
		Short: "Show the hooks of a workload, or of a container's, with their attempts on record",
		Long: `Show the hooks of a workload as it is applied, with the number of their attempts
on record, how many failed, and how long they took. Hooks of images are shown
once they have run. Of a container, only its own
attempts count. With --normalized, print the hooks as YAML in the form of
docs/workload-file.md, whatever form the file has.`,
		Args: cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			filter := client.RunFilter{NoOutput: true}
			id, err := c.Workload(ctx, args[0])
			if failed, ok := errors.AsType[*client.Error](err); ok && failed.Code == client.CodeWorkloadNotFound {
				container, notFound := c.Container(ctx, args[0])
				if notFound != nil {
					return err
				}
				filter.Container = container.ID
				id, err = c.Workload(ctx, container.Workload)
			}
			if err != nil {
				return err
			}
			w, err := workload.Parse([]byte(id.Source), id.ID)
			if err != nil {
				return fmt.Errorf("this program is older than the server: %w", err)
			}
			if normalized {
				_, err := cmd.OutOrStdout().Write(w.NormalizedHooks())
				return err
			}
			filter.Workload = id.ID
			runs, err := c.Runs(ctx, filter)
			if err != nil {
				return err
			}
			list := configuredHooks(w, runs)
			return r.printResult(cmd.OutOrStdout(), list, func(out io.Writer) error {
				rows := make([][]string, len(list))
				for i, h := range list {
					rows[i] = h.row()
				}
				return writeTable(out, "AT HOOK ACTION ATTEMPTS FAILURES AVERAGE_MS P95_MS MAX_MS LAST_STATE LAST", rows)
			})
		}),
		ValidArgsFunction: r.complete(workloadIDs),
	}
	cmd.Flags().BoolVar(&normalized, "normalized", false, "print the hooks as YAML, in one form")
	r.flags(cmd)
	return cmd
}

// configuredHooks returns the hooks of a workload: those of the points in their
// order, then those of gates, of which only refusals are on record, and those for
// events.
func configuredHooks(w *workload.Workload, runs []client.Run) []configuredHook {
	attempts := map[string][]client.Run{}
	for _, r := range runs {
		if r.State != client.RunSkipped && !strings.HasPrefix(r.Event, "test.") {
			key := string(r.Point) + " " + r.Hook
			attempts[key] = append(attempts[key], r)
		}
	}
	list := []configuredHook{}
	add := func(at, point string, h hooks.Hook) {
		if !h.Disabled {
			list = append(list, newConfiguredHook(at, h, attempts[point+" "+h.Name]))
		}
	}
	for _, rule := range hooks.Points() {
		for _, h := range append(imageHooks(rule.Point, runs), w.Hooks[rule.Point]...) {
			add(string(rule.Point), string(rule.Point), h)
		}
	}
	for _, rule := range hooks.Gates() {
		for _, h := range w.Gates[rule.Gate] {
			add(string(rule.Gate), string(rule.Gate), h)
		}
	}
	for _, h := range w.EventHooks {
		at := fmt.Sprintf("%d types of events", len(h.On))
		if len(h.On) == 1 {
			at = h.On[0]
		}
		add(at, "", h.Hook)
	}
	return list
}

// imageHooks returns the hooks of images that have run at a point, in their order.
func imageHooks(p hooks.Point, runs []client.Run) []hooks.Hook {
	found := map[string]client.Run{}
	for _, r := range runs {
		if string(r.Point) == string(p) && strings.HasPrefix(r.Hook, hooks.ImagePrefix) && len(r.Command) == 1 {
			found[r.Hook] = r
		}
	}
	var list []runtime.ImageHook
	for _, r := range slices.SortedFunc(maps.Values(found), func(a, b client.Run) int { return cmp.Compare(a.Index, b.Index) }) {
		list = append(list, runtime.ImageHook{Point: string(p), Path: r.Command[0]})
	}
	return hooks.ImageHooksAt(p, list)
}

func newConfiguredHook(at string, h hooks.Hook, attempts []client.Run) configuredHook {
	out := configuredHook{
		At: at, Hook: h.Name, Action: string(h.Action.Kind()), OnError: string(h.OnError),
		Timeout: float64(h.Timeout.Microseconds()) / 1000, Attempts: len(attempts),
	}
	var durations []float64
	for _, r := range attempts {
		if out.LastAt == nil || r.StartedAt.After(*out.LastAt) {
			out.LastAt, out.LastState = &r.StartedAt, r.State
		}
		if r.State == client.RunRunning {
			continue
		}
		if r.State != client.RunSucceeded {
			out.Failures++
		}
		durations = append(durations, r.Duration)
		out.Average += r.Duration
	}
	if n := len(durations); n > 0 {
		slices.Sort(durations)
		out.Average = math.Round(out.Average/float64(n)*10) / 10
		out.P95, out.Max = durations[(n*95+99)/100-1], durations[n-1]
		out.Slow = hooks.Point(at).Rule().OfWait && out.P95 > float64(slowWaitHook.Milliseconds())
	}
	return out
}

// slowWaitHook is how long a hook of a wait should take at most in 95 of 100 cases:
// the program that waits gets its signal after it.
const slowWaitHook = 3 * time.Second

func (h configuredHook) row() []string {
	row := []string{h.At, h.Hook, h.Action, strconv.Itoa(h.Attempts), strconv.Itoa(h.Failures), "", "", "", string(h.LastState), ""}
	if h.LastAt != nil {
		row[5], row[6], row[7] = fmt.Sprintf("%.1f", h.Average), fmt.Sprintf("%.1f", h.P95), fmt.Sprintf("%.1f", h.Max)
		row[9] = timestamp(*h.LastAt)
		if h.Slow {
			row[6] += " (slow)"
		}
	}
	return row
}
