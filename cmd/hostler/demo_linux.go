package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
)

func newDemoCmd() *cobra.Command {
	var rt string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Demonstrate Hostler in a minute, and clean up",
		Long: `Start a temporary server on a free port, apply an example workload, claim and
release a container, show the hook runs and all events, and remove everything
again.

The demo runs on Docker, with an image built from this program. Without a Docker
engine it runs plain processes on this machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			// The demo cleans up even if its output is no longer read.
			signal.Ignore(syscall.SIGPIPE)
			return runDemo(ctx, rt, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&rt, "runtime", "auto", "auto, docker or process")
	return cmd
}

// demo is a running demonstration.
type demo struct {
	out     io.Writer
	client  *client.Client
	image   string // built for the demo; empty on the process runtime
	program string // path of this program in the containers
	user    string
}

// demoWait is the timeout of each wait of the demo.
const demoWait = time.Minute

// unexpectedErrors is the handler of the demonstration's log. The demonstration
// has hooks that fail, and prints that.
type unexpectedErrors struct{ slog.Handler }

func (h unexpectedErrors) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == hookFailed {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// runDemo runs the demonstration, and cleans up also after an error.
func runDemo(ctx context.Context, rt string, out, errOut io.Writer) (err error) {
	data, err := os.MkdirTemp("", "hostler-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()

	config := serveConfig{data: data, runtime: rt, store: "sqlite"}
	if err := config.makePrivate(); err != nil {
		return err
	}
	log := slog.New(unexpectedErrors{slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelError})})
	s, err := wireDemo(ctx, config, log, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.closeAll()) }()

	d := &demo{out: out}
	if err := d.prepare(ctx, s); err != nil {
		return err
	}
	clean := context.WithoutCancel(ctx)
	if engine, ok := s.rt.(*docker.Runtime); ok {
		defer func() { err = errors.Join(err, engine.Purge(clean, d.image)) }()
	}

	err = s.usePrivately(ctx, config, func(base string, api *client.Client) error {
		d.client = api
		d.printf("the server is listening on %s; its data directory is %s", base, data)
		return errors.Join(d.show(ctx), d.clean(clean))
	})
	if err == nil {
		d.printf("everything that the demo created is removed; next: README.md, docs/workload-file.md")
	}
	return err
}

// wireDemo builds a server on Docker, or on processes when there is no engine.
func wireDemo(ctx context.Context, c serveConfig, log *slog.Logger, out io.Writer) (*server, error) {
	if c.runtime != "auto" {
		return wire(ctx, c, log)
	}
	s, err := wire(ctx, c, log)
	if !errors.Is(err, runtime.ErrUnavailable) {
		return s, err
	}
	fmt.Fprintln(out, "No Docker engine is available: the demo runs plain processes on this machine, without isolation.")
	c.runtime = "process"
	return wire(ctx, c, log)
}

// prepare builds the image of the demo's containers, if the runtime has
// images.
func (d *demo) prepare(ctx context.Context, s *server) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	d.program = self
	engine, ok := s.rt.(*docker.Runtime)
	if !ok {
		return nil
	}
	d.image, d.program, d.user = "hostler-demo:"+shortID(uuid.NewString()), "/hostler", "1000:1000"
	d.printf("building the image %s from this program", d.image)
	r, w := io.Pipe()
	var g errgroup.Group
	g.Go(func() error {
		err := packProgram(w, self)
		w.CloseWithError(err)
		return err
	})
	err = engine.Import(ctx, d.image, r, `CMD ["/hostler", "demo-app", "serve"]`)
	r.CloseWithError(io.ErrClosedPipe)
	return errors.Join(err, g.Wait())
}

// packProgram writes a root filesystem with one program as a tar archive.
func packProgram(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Name: "hostler", Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(t, f); err != nil {
		return err
	}
	return t.Close()
}

// workload returns a workload file of the demo.
func (d *demo) workload(id, hooks string) string {
	image, user := d.image, ""
	if image == "" {
		image = "none" // processes need no image
	}
	if d.user != "" {
		user = fmt.Sprintf("user: %q\nread_only: true\n", d.user)
	}
	return fmt.Sprintf(`id: %s
image: %s
command: [%q, demo-app, serve]
%svolumes: { state: { target: /state } }
healthcheck: { test: [CMD, %q, demo-app, check], interval: 5s }
pool: { min_idle: 1, max_size: 3 }
hooks:
%s`, id, image, d.program, user, d.program, strings.ReplaceAll(hooks, "APP", fmt.Sprintf("%q, demo-app", d.program)))
}

const notesHooks = `  post_create: [{ name: warm, command: [APP, warm], timeout: 10s }]
  post_claim:
    - { name: migrate, command: [APP, migrate], timeout: 5s, on_error: fail }
    - { name: index, command: [APP, index], on_error: retry, retries: 2 }
  pre_release: [{ name: flush, command: [APP, flush], on_error: continue }]
  pre_destroy: [{ name: deregister, command: [APP, deregister], on_error: continue }]
`

// misbehavingHooks has a hook that ignores SIGTERM, leaves a daemon running and
// writes endlessly.
const misbehavingHooks = `  post_claim: [{ name: runaway, command: [APP, runaway], timeout: 2s }]
`

// show runs the steps of the demonstration.
func (d *demo) show(ctx context.Context) error {
	file := d.workload("notes", notesHooks)
	d.printf("applying a workload:\n\n%s", indent(file))
	if _, err := d.client.Apply(ctx, "notes", []byte(file)); err != nil {
		return err
	}
	if err := d.await(ctx, "notes", client.EventContainerCreated); err != nil {
		return err
	}
	d.printf("an idle container is ready, warmed by post_create; tenant ada claims it")
	c, _, err := d.client.Claim(ctx, "notes", "ada", demoWait)
	if err != nil {
		return err
	}
	d.printf("claim %s is %s after %.0f ms: a %s container at %q", shortID(c.ID), c.State, total(c.Timings), c.Source, c.Endpoint.Host)
	if err := d.runs(ctx, c.ID); err != nil {
		return err
	}
	again, created, err := d.client.Claim(ctx, "notes", "ada", 0)
	if err != nil {
		return err
	}
	d.printf("claiming again returns the same claim and runs nothing: %s, new: %t", shortID(again.ID), created)
	if err := d.showMisbehaving(ctx); err != nil {
		return err
	}
	d.printf("ada releases the claim")
	before := total(c.Timings)
	if c, err = d.client.Release(ctx, c.ID, false); err != nil {
		return err
	}
	d.printf("claim %s is %s after %.0f ms, with %d warnings", shortID(c.ID), c.State, total(c.Timings)-before, len(c.Warnings))
	return nil
}

// showMisbehaving shows how a hook that does not end is killed.
func (d *demo) showMisbehaving(ctx context.Context) error {
	file := d.workload("runaway", misbehavingHooks)
	d.printf("now a hook that ignores SIGTERM, leaves a daemon running and writes endlessly, with a timeout of 2 s")
	if _, err := d.client.Apply(ctx, "runaway", []byte(file)); err != nil {
		return err
	}
	if err := d.await(ctx, "runaway", client.EventContainerCreated); err != nil {
		return err
	}
	begin := time.Now()
	_, _, err := d.client.Claim(ctx, "runaway", "bob", demoWait)
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || refused.Run == nil {
		return fmt.Errorf("claim for bob: want a failed hook: %w", err)
	}
	r := refused.Run
	d.printf("bob's claim failed after %.1f s with code %q: hook state %s, killed: %t, output: %d MB; its processes and the container are destroyed",
		time.Since(begin).Seconds(), refused.Code, r.State, r.Killed, r.Stdout.Total>>20)
	return nil
}

// await waits for an event of type t of a workload. A pool warning is an error.
func (d *demo) await(ctx context.Context, workload string, t client.EventType) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoWait, fmt.Errorf("no %s of %s within %s", t, workload, demoWait))
	defer cancel()
	seen := errors.New("seen")
	query := client.EventQuery{EventFilter: client.EventFilter{Workload: workload, Types: []client.EventType{t, client.EventPoolWarning}}, After: "0"}
	err := d.client.Follow(ctx, query, func(e client.FollowedEvent) error {
		if e.Type == client.EventPoolWarning {
			return errors.New(e.Message)
		}
		return seen
	})
	if errors.Is(err, seen) {
		return nil
	}
	return errors.Join(err, context.Cause(ctx))
}

// runs shows the hook runs of a claim.
func (d *demo) runs(ctx context.Context, claim string) error {
	runs, err := d.client.Runs(ctx, client.RunFilter{Claim: claim})
	if err != nil {
		return err
	}
	for _, r := range runs {
		fmt.Fprintf(d.out, "    %-11s %-10s attempt %d  %-9s %6.1f ms  %s\n", r.Point, r.Hook, r.Attempt, r.State, r.Duration,
			strings.TrimSpace(strings.SplitN(r.Stdout.String()+r.Stderr.String(), "\n", 2)[0]))
	}
	return nil
}

// clean deletes the workloads, waits until their containers are destroyed, and
// shows the event log.
func (d *demo) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoWait)
	defer cancel()
	var all error
	for _, id := range []string{"notes", "runaway"} {
		_, err := d.client.DeleteWorkload(ctx, id)
		if problem, ok := errors.AsType[*client.Error](err); ok && problem.Status == 404 {
			continue // it was not applied
		}
		if err == nil {
			err = d.await(ctx, id, client.EventWorkloadDeleted)
		}
		all = errors.Join(all, err)
	}
	page, err := d.client.Events(ctx, client.EventQuery{}, 1000)
	if err != nil {
		return errors.Join(all, err)
	}
	d.printf("all events, as `hostler events` shows them")
	for _, e := range page.Items {
		fmt.Fprintf(d.out, "    %4d  %-21s %-8s %-8s %s\n", e.Seq, e.Type, e.Workload, shortID(e.Container), shortText(e.Message))
	}
	return all
}

func (d *demo) printf(format string, args ...any) {
	fmt.Fprintf(d.out, "\n==> "+format+"\n", args...)
}

// total returns the sum of the steps' durations, in milliseconds.
func total(timings map[string]float64) float64 {
	sum := 0.0
	for _, ms := range timings {
		sum += ms
	}
	return sum
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}

// shortText returns the first 100 characters of a text, without line breaks.
func shortText(text string) string {
	const width = 100
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) > width {
		return string(r[:width]) + "..."
	}
	return string(r)
}
