package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// trialScreen shows what happens in a trial, and remembers it.
type trialScreen struct {
	to    io.Writer
	id    string // of the workload
	begin time.Time

	// mu guards what follows, and to.
	mu        sync.Mutex
	container string // the first one; a second is that of a retry, and not shown
	seen      map[client.EventType]bool
	failure   error                           // of the container
	ending    bool                            // from here on the container may end
	gone      bool                            // everything is removed
	hooks     map[attemptKey]*attemptFollower // that run
	rows      []trialRow
	changed   chan struct{} // closed at the next change

	// logMu guards log, and is held while one is read: of two readers, the later
	// one could have the older text.
	logMu sync.Mutex
	log   logFollower
}

// attemptKey identifies an attempt of a hook.
type attemptKey struct {
	run     string
	attempt int
}

// trialRow is a line of the summary.
type trialRow struct {
	what, hook, result string
	took               time.Duration
	run                *client.Run
}

func newTrialScreen(out io.Writer, id string) *trialScreen {
	return &trialScreen{to: out, id: id, begin: time.Now(), log: logFollower{window: trialLogTail}, seen: map[client.EventType]bool{}, hooks: map[attemptKey]*attemptFollower{}, changed: make(chan struct{})}
}

func (o *trialOptions) printf(format string, args ...any) {
	fmt.Fprintln(o.out, "==> "+sanitize(fmt.Sprintf(format, args...)))
}

func (t *trial) printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trialOptions.printf(format, args...)
}

// change changes what is remembered, and wakes those who wait for it.
func (s *trialScreen) change(set func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *trialScreen) setEnding() { s.change(func() { s.ending = true }) }
func (s *trialScreen) setGone()   { s.change(func() { s.gone = true }) }

func (s *trialScreen) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

func (s *trialScreen) addRow(what, hook string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	s.change(func() { s.rows = append(s.rows, trialRow{what: what, hook: hook, took: took, result: result}) })
}

// await waits for an event. A container that ends before it should is an error.
func (s *trialScreen) await(ctx context.Context, t client.EventType) error {
	for {
		s.mu.Lock()
		seen, failure, changed := s.seen[t], s.failure, s.changed
		if s.ending {
			failure = nil // it is known
		}
		s.mu.Unlock()
		if seen {
			return nil
		}
		if failure != nil {
			return failure
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// runsFor waits for a time in which the container must not end.
func (s *trialScreen) runsFor(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errTrialHeld)
	defer cancel()
	if err := s.await(ctx, ""); !errors.Is(err, errTrialHeld) {
		return err
	}
	return nil
}

// errTrialHeld is the cause when a container has run as long as it should.
var errTrialHeld = errors.New("it has run so long")

func (s *trialScreen) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// follow shows the events of the workload until ctx ends.
func (s *trialScreen) follow(ctx context.Context, api *client.Client) error {
	query := client.EventQuery{EventFilter: client.EventFilter{Workload: s.id}, After: "0"}
	err := api.Follow(ctx, query, func(e client.FollowedEvent) error {
		var ended *client.Run
		if e.Type == client.EventHookCompleted || e.Type == client.EventHookFailed || e.Type == client.EventHookSkipped {
			ended = runOf(ctx, api, e.Event)
		}
		s.change(func() { s.show(e.Event, ended) })
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	s.change(func() { s.failure = errors.Join(s.failure, err) })
	return err
}

// attemptOf returns the attempt of a hook that an event is about; 0 if it names none.
func attemptOf(e client.Event) attemptKey {
	var data struct{ Attempt int }
	_ = json.Unmarshal(e.Data, &data) // then it names none
	return attemptKey{e.Run, data.Attempt}
}

// runOf returns the record of the attempt that an event is about.
func runOf(ctx context.Context, api *client.Client, e client.Event) *client.Run {
	return recordOf(ctx, api, attemptOf(e))
}

// recordOf returns the record of an attempt, or nil.
func recordOf(ctx context.Context, api *client.Client, k attemptKey) *client.Run {
	attempts, err := api.Run(ctx, k.run)
	if err != nil {
		return nil
	}
	for i, a := range attempts {
		if a.Attempt == k.attempt {
			return &attempts[i]
		}
	}
	return nil
}

// copyHooks shows what hooks that run have printed since the last call.
func (s *trialScreen) copyHooks(ctx context.Context, api *client.Client) {
	s.mu.Lock()
	running := slices.Collect(maps.Keys(s.hooks))
	s.mu.Unlock()
	for _, k := range running {
		if r := recordOf(ctx, api, k); r != nil {
			s.change(func() { s.printNew(*r) })
		}
	}
}

// printNew shows what an attempt has printed since the last call, unless it was shown
// that it has ended. The mutex is locked.
func (s *trialScreen) printNew(r client.Run) {
	f := s.hooks[attemptKey{r.ID, r.Attempt}]
	if f == nil {
		return
	}
	stdout, stderr, lost := f.advance(r)
	if lost {
		s.printLines(r.Hook, []byte("… more was printed than is shown"))
	}
	s.printLines(r.Hook, stdout)
	s.printLines(r.Hook, stderr)
}

// earlyEnds are the events of a container that ends before its release.
var earlyEnds = map[client.EventType]bool{
	client.EventContainerDied: true, client.EventContainerDestroying: true, client.EventContainerUnhealthy: true, client.EventPoolWarning: true,
}

// show shows an event. The mutex is locked.
func (s *trialScreen) show(e client.Event, ended *client.Run) {
	if e.Type == client.EventContainerCreating && s.container == "" {
		s.container = e.Container
	}
	if e.Container != "" && e.Container != s.container {
		return
	}
	s.seen[e.Type] = true
	if earlyEnds[e.Type] && !s.ending && s.failure == nil {
		s.failure = errors.New(strings.TrimPrefix(strings.TrimPrefix(e.Message, "destroying container: "), "container exited: "))
	}
	if e.Type == client.EventHookStarted {
		s.hooks[attemptOf(e)] = new(attemptFollower)
	}
	if ended != nil {
		s.printNew(*ended)
		delete(s.hooks, attemptKey{ended.ID, ended.Attempt})
	}
	fmt.Fprintf(s.to, "%8.2fs  %-22s %s\n", time.Since(s.begin).Seconds(), e.Type, oneLine(e.Message))
	if ended == nil {
		return
	}
	s.rows = append(s.rows, trialRow{
		what: string(ended.Point), hook: ended.Hook, result: string(ended.State), run: ended,
		took: time.Duration(ended.Duration * float64(time.Millisecond)),
	})
}

// printLines prints lines of a program, each with its name. The mutex is locked.
func (s *trialScreen) printLines(name string, text []byte) {
	for line := range bytes.Lines(text) {
		fmt.Fprintf(s.to, "%9s  %s | %s\n", "", sanitize(name), sanitize(strings.TrimRight(string(line), "\r\n")))
	}
}

// summarize prints what each step and hook took, and returns the error of the
// command.
func (t *trial) summarize(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintln(t.to)
	w := tabwriter.NewWriter(t.to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tHOOK\tTOOK\tRESULT")
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%s\t%.1f ms\t%s\n", r.what, oneLine(r.hook), float64(r.took)/float64(time.Millisecond), r.result)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	code, failed := t.failedHook(), t.failedRow()
	switch {
	case err != nil && errors.Is(err, context.Canceled):
		t.trialOptions.printf("interrupted")
		return failedTrial(exitInterrupted)
	case err != nil:
		c, text, _ := classify(err)
		t.trialOptions.printf("failed: %s", strings.Join(strings.Fields(text), " "))
		if hooks.Point(failed.what).Rule().Aborts {
			c = code // the hook is why the step failed
		}
		return failedTrial(c)
	case code != exitOK:
		t.trialOptions.printf("failed: the %s hook %q: %s", failed.what, failed.hook, failed.result)
		return failedTrial(code)
	}
	t.trialOptions.printf("all of it succeeded, and everything is removed")
	return nil
}

// watchedBackend is a backend whose containers are looked at before they are removed.
type watchedBackend struct {
	backend
	beforeDestroy func(ctx context.Context, rt runtime.Runtime, container string)
}

// observedRuntime returns rt with f called before each Destroy, if f is not nil.
func observedRuntime(rt backend, f func(context.Context, runtime.Runtime, string)) backend {
	if f == nil {
		return rt
	}
	return watchedBackend{rt, f}
}

// Destroy implements runtime.Lifecycle.
func (o watchedBackend) Destroy(ctx context.Context, id string) error {
	o.beforeDestroy(ctx, o.backend, id)
	return o.backend.Destroy(ctx, id)
}
