package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// trial is one life of a container.
type trial struct {
	*trialOptions
	*trialScreen
	workload *workload.Workload
	claimed  client.ClaimOptions
	api      *client.Client
	claim    string // the id; empty before it is active
}

// trialSettle is how long a container without a health check has to run before it
// is claimed: one whose program fails at once is idle for a moment.
const trialSettle = time.Second

// try is one trial of a file.
func (o *trialOptions) try(ctx context.Context, cmd *cobra.Command, file string) (err error) {
	w, err := o.read(file)
	if err != nil {
		return err
	}
	claimed, err := o.terms.options(cmd, o.timeout)
	if err != nil {
		return err
	}
	claimed.Wait = min(o.timeout, 5*time.Minute)
	dir, err := newTrialDir(o.parent)
	if err != nil {
		return err
	}
	config, err := dir.configure(o.config)
	if err != nil {
		return errors.Join(err, dir.remove())
	}
	t := &trial{trialOptions: o, workload: w, claimed: claimed, trialScreen: newTrialScreen(o.out, w.ID)}
	config.beforeDestroy = t.copyLog
	s, err := wire(ctx, config, o.logger())
	if err != nil {
		return errors.Join(err, dir.remove())
	}
	err = t.run(ctx, s, config, filepath.Dir(file))
	gone := errors.Join(s.purge(ctx), s.closeAll())
	if gone == nil && t.isGone() {
		return errors.Join(err, dir.remove())
	}
	return errors.Join(err, t.reportLeft(gone), dir.close())
}

// reportLeft shows why something is left, and returns the error of the command.
func (t *trial) reportLeft(err error) error {
	if err == nil {
		return nil
	}
	t.printf("not everything is removed; `hostler try --clean` tries again: %v", err)
	return failedTrial(exitFailure)
}

func (o *trialOptions) logger() *slog.Logger {
	return slog.New(unexpectedErrors{slog.NewTextHandler(o.errOut, &slog.HandlerOptions{Level: slog.LevelError + 1})})
}

// read reads the file, and prints what is wrong with it.
func (o *trialOptions) read(file string) (*workload.Workload, error) {
	source, err := workload.ReadFile(file)
	if err != nil {
		return nil, err
	}
	w, err := workload.Parse(source, file)
	if invalid, ok := errors.AsType[workload.ValidationErrors](err); ok {
		return nil, errors.Join(failedTrial(exitFailure), printLines(o.errOut, lines(invalid)))
	}
	if err != nil {
		return nil, err
	}
	return w, printLines(o.errOut, notesOf(w, file))
}

// notesOf returns what validate notes about a valid file.
func notesOf(w *workload.Workload, file string) []string {
	_, linted := w.Lint(file)
	return lines(slices.Concat(w.Notes, w.Advice, linted))
}

// run applies the workload and has it live once.
func (t *trial) run(ctx context.Context, s *server, config serveConfig, dir string) error {
	if _, err := s.rt.Status(ctx, uuid.Nil.String()); errors.Is(err, runtime.ErrUnavailable) {
		return &exitError{exitUnavailable, err}
	}
	if err := t.apply(ctx, s, dir); err != nil {
		t.setGone()
		return err
	}
	clean := context.WithoutCancel(ctx)
	return s.usePrivately(ctx, config, func(base string, api *client.Client) error {
		t.api = api
		following, stop := context.WithCancel(clean)
		defer stop()
		var g errgroup.Group
		g.Go(func() error { return t.follow(following, api) })
		g.Go(func() error { return t.followLog(following, s.rt, api) })
		err := t.live(ctx, base, config)
		end, cancel := context.WithTimeout(clean, trialCleanup)
		defer cancel()
		t.setEnding()
		endErr := removeTrial(end, api, t.workload.ID)
		if endErr == nil {
			endErr = t.await(end, client.EventWorkloadDeleted)
		}
		if endErr == nil {
			t.setGone()
		}
		stop()
		return errors.Join(t.summarize(err), g.Wait(), t.reportLeft(endErr))
	})
}

// apply applies the workload before the server's loops run: its pool has one
// container, and that of the workload whose hooks it copies has none.
func (t *trial) apply(ctx context.Context, s *server, dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if t.workload.HooksFrom != "" {
		if err := applyParent(ctx, s, abs, t.workload.HooksFrom); err != nil {
			return err
		}
	}
	_, err = s.pools.Apply(ctx, t.workload.Source, t.workload.ID, abs)
	if invalid, ok := errors.AsType[workload.ValidationErrors](err); ok {
		return errors.Join(failedTrial(exitFailure), printLines(t.errOut, lines(invalid)))
	}
	if err != nil {
		return err
	}
	one := 1
	_, err = s.pools.Scale(ctx, t.workload.ID, pool.Scale{MinIdle: &one, MaxSize: &one})
	return err
}

// applyParent applies the workload whose hooks are copied, if a file of the
// directory has it. Otherwise Apply reports that it is missing.
func applyParent(ctx context.Context, s *server, dir, id string) error {
	files, err := workload.Files(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		source, err := workload.ReadFile(file)
		if err != nil {
			continue // it is of no concern unless it is the one, which is then missing
		}
		w, err := workload.Parse(source, file)
		if err != nil || w.ID != id {
			continue
		}
		if _, err := s.pools.Apply(ctx, source, file, dir); err != nil {
			return err
		}
		_, err = s.pools.Drain(ctx, id)
		return err
	}
	return nil
}

// live has the container live once. What it leaves is removed by its caller.
func (t *trial) live(ctx context.Context, base string, config serveConfig) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"create", t.create},
		{"claim", t.acquire},
		{"waits", t.wait},
		{"hold", func(ctx context.Context) error { return t.keep(ctx, base, config) }},
		{"release", t.release},
		{"destroy", t.destroy},
	} {
		begin := time.Now()
		err := step.do(ctx)
		if errors.Is(err, errNoStep) {
			continue
		}
		t.addRow(step.name, "", time.Since(begin), err)
		if err != nil {
			return err
		}
	}
	return nil
}

// errNoStep is the error of a step that the workload does not have.
var errNoStep = errors.New("the workload has no such step")

// create waits for the container.
func (t *trial) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("the container is not ready after %s", t.timeout))
	defer cancel()
	if err := t.await(ctx, client.EventContainerCreated); err != nil {
		return err
	}
	if t.workload.Healthcheck != nil {
		return nil
	}
	return t.runsFor(ctx, trialSettle)
}

// acquire claims the container.
func (t *trial) acquire(ctx context.Context) error {
	c, _, err := t.api.ClaimWith(ctx, t.workload.ID, t.tenant, t.claimed)
	if err != nil {
		return err
	}
	t.claim = c.ID
	if err := t.await(ctx, client.EventClaimActivated); err != nil {
		return err
	}
	for _, port := range c.Endpoint.Ports {
		t.printf("endpoint %s", net.JoinHostPort(c.Endpoint.Host, strconv.Itoa(port)))
	}
	// The pool creates no other container when this one is released.
	none := 0
	_, err = t.api.Scale(ctx, t.workload.ID, client.Scale{MinIdle: &none})
	return err
}

// wait has the hooks of waits run: those of one that gets its signal, and those of
// one that does not.
func (t *trial) wait(ctx context.Context) error {
	begins := len(t.workload.Hooks[hooks.WaitStart]) > 0
	signals, expires := len(t.workload.Hooks[hooks.WaitSignal]) > 0, len(t.workload.Hooks[hooks.WaitTimeout]) > 0
	if !begins && !signals && !expires {
		return errNoStep
	}
	if begins || signals {
		request := client.WaitRequest{Name: "try", Type: "try", Timeout: time.Minute, OnTimeout: client.DecideAbort}
		w, _, err := t.api.StartWait(ctx, t.claim, request)
		if err != nil {
			return err
		}
		if _, err := t.api.Signal(ctx, t.claim, "try", []byte(`{"from":"hostler try"}`)); err != nil {
			return err
		}
		if _, err := t.api.FollowWait(ctx, w.ID, 2*time.Minute); err != nil {
			return err
		}
	}
	if expires {
		_, err := t.api.Wait(ctx, t.claim, client.WaitRequest{Name: "expires", Type: "try", Timeout: time.Second, OnTimeout: client.DecideAbort})
		return err
	}
	return nil
}

// keep leaves the container to the caller for a while.
func (t *trial) keep(ctx context.Context, base string, config serveConfig) error {
	if t.hold <= 0 {
		return errNoStep
	}
	t.printf("claim %s is yours for %s: hostler exec %s --server %s --api-key-file %s -- COMMAND", t.claim, t.hold, t.claim, base, config.apiKeyFile)
	return t.runsFor(ctx, t.hold)
}

// release releases the claim.
func (t *trial) release(ctx context.Context) error {
	t.setEnding()
	if _, err := t.api.Release(ctx, t.claim, false); err != nil {
		return err
	}
	if err := t.await(ctx, client.EventClaimReleased); err != nil {
		return err
	}
	return t.deliver(ctx)
}

// deliver waits for the hooks for events. A delivery that is attempted again later
// is not waited for.
func (t *trial) deliver(ctx context.Context) error {
	if len(t.workload.EventHooks) == 0 {
		return nil
	}
	deadline := time.Now().Add(trialDeliveries)
	for time.Now().Before(deadline) {
		all, err := t.api.Deliveries(ctx, client.DeliveryFilter{Workload: t.workload.ID})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(d client.Delivery) bool { return openDeliveries[d.State] }) {
			return nil
		}
		if err := t.pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	t.printf("hooks for events have not all succeeded within %s", trialDeliveries)
	return nil
}

// openDeliveries are the states of deliveries that have not ended.
var openDeliveries = map[client.DeliveryState]bool{
	client.DeliveryQueued: true, client.DeliveryScheduled: true, client.DeliveryRunning: true,
}

// trialDeliveries is how long the hooks for events of a trial may take.
const trialDeliveries = 10 * time.Second

// destroy has the container destroyed, with the workload.
func (t *trial) destroy(ctx context.Context) error {
	t.setEnding()
	if _, err := t.api.DeleteWorkload(ctx, t.workload.ID); err != nil {
		return err
	}
	return t.await(ctx, client.EventContainerDestroyed)
}
