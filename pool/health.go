package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// ErrUnhealthy is returned if a container fails its health check or is not
// healthy before the deadline.
var ErrUnhealthy = errors.New("container is unhealthy")

// How often a container that has just been started is checked: immediately,
// then with backoff. A workload that is ready in 30 ms should not wait for its
// 30 s interval.
const (
	minProbeInterval = 20 * time.Millisecond
	maxProbeInterval = time.Second
)

// How many checks of watched containers run concurrently, in total and of one
// workload, and how many slots are left to workloads without a running check:
// one whose checks hang must not delay those of others.
const (
	parallelChecks    = 32
	checksPerWorkload = 16
	reservedChecks    = 8
)

// HealthChecker runs the workloads' health checks. They are Hostler's own, not
// the engine's: they are the same on every backend and fast after a start, and
// a stuck check does not block the others.
type HealthChecker struct {
	rt      runtime.Runtime
	store   Containers
	outputs *outputReader
	log     *slog.Logger
	// beginLoss is called before an idle container is moved to Destroying.
	beginLoss func(Container) (end func(*Container))
	checks    *workqueue.Queue[containerKey]

	mu       sync.Mutex // guards watched and verified
	watched  map[string]*watchedContainer
	verified map[string]bool // found running since this server started
}

// watchedContainer is a container with a health check.
type watchedContainer struct {
	w           *workload.Workload
	nextCheck   time.Time
	lastHealthy time.Time // when it last passed; zero since it was restarted
	graceUntil  time.Time // until then it is starting and failures do not count
	failures    int       // consecutive
	// known is when the record was last changed, as it was last read; zero: it is to be
	// read. A check that passes reads nothing unless the container is unhealthy on record.
	known       time.Time
	isUnhealthy bool
}

// NewHealthChecker returns a HealthChecker; Run checks the watched containers.
func NewHealthChecker(rt runtime.Runtime, store Containers, beginLoss func(Container) (end func(*Container)), log *slog.Logger) *HealthChecker {
	return &HealthChecker{
		rt: rt, store: store, outputs: &outputReader{rt: rt, log: log}, log: log, beginLoss: beginLoss,
		watched: map[string]*watchedContainer{}, verified: map[string]bool{},
		checks: workqueue.New(workqueue.Options[containerKey]{
			Group: containerKey.group, PerGroup: checksPerWorkload, Reserved: reservedChecks, Backoff: engineRetries, Log: log,
		}),
	}
}

// Await waits until the container is healthy and returns its status. It returns
// ErrUnhealthy if the start period and all retries have passed, or ErrTerminating. Without a
// health check, a running container is healthy.
func (c *HealthChecker) Await(ctx context.Context, w *workload.Workload, id string) (runtime.Status, error) {
	h := w.Healthcheck
	if h != nil {
		if err := c.awaitCheck(ctx, h, id); err != nil {
			return runtime.Status{}, err
		}
	}
	status, err := c.rt.Status(ctx, id)
	if err != nil {
		return status, fmt.Errorf("read the status: %w", err)
	}
	if status.State != runtime.Running {
		return status, exitErrorOfStatus(status)
	}
	if status.Condition == runtime.Terminating {
		return status, ErrTerminating
	}
	c.markHealthy(id)
	return status, nil
}

func (c *HealthChecker) awaitCheck(ctx context.Context, h *workload.Healthcheck, id string) error {
	start, failures := time.Now(), 0
	probes := backoff.Policy{Min: minProbeInterval, Max: min(maxProbeInterval, h.Interval)}.Retries()
	for {
		err := c.runCheck(ctx, h, id)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrUnhealthy) {
			return err
		}
		wait := probes.Next()
		if time.Since(start) >= h.StartPeriod {
			if failures++; failures >= h.Retries {
				return err
			}
			wait = h.Interval
		}
		if err := flow.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// runCheck runs the check once. It returns ErrUnhealthy if the check failed or
// exceeded its timeout. A check that cannot be started is another error, which
// retries do not fix.
func (c *HealthChecker) runCheck(ctx context.Context, h *workload.Healthcheck, id string) error {
	res, err := c.rt.Exec(ctx, id, runtime.Command{Args: h.Command, Timeout: h.Timeout})
	if err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	if res.OK() {
		return nil
	}
	failed := &checkError{why: fmt.Sprintf("its check exited with code %d", res.ExitCode)}
	if res.TimedOut {
		failed.why = fmt.Sprintf("its check ran longer than %s", h.Timeout)
	}
	failed.printed = c.outputs.ofCheck(res.Stdout, res.Stderr)
	failed.last = cmp.Or(c.outputs.lastLines(c.outputs.ofCheck(res.Stderr)), c.outputs.lastLines(failed.printed))
	return failed
}

// IsRecentlyHealthy reports whether the container may be claimed without
// another check: this server has found it running, and it has no health check
// or passed it less than one interval ago and after its last restart.
func (c *HealthChecker) IsRecentlyHealthy(w *workload.Workload, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.Healthcheck == nil {
		return c.verified[id]
	}
	k := c.watched[id]
	return k != nil && k.failures == 0 && time.Since(k.lastHealthy) < w.Healthcheck.Interval
}

// Watch starts to check the container at its interval. healthy is when the
// container last passed its check; zero: never on this server.
func (c *HealthChecker) Watch(id string, w *workload.Workload, healthy time.Time) {
	if w.Healthcheck == nil {
		return
	}
	c.mu.Lock()
	k := &watchedContainer{w: w, lastHealthy: healthy, nextCheck: time.Now()}
	if !healthy.IsZero() {
		k.nextCheck = healthy.Add(w.Healthcheck.Interval)
	}
	c.watched[id] = k
	c.schedule(id, k)
	c.mu.Unlock()
}

// schedule requests a check of the container at its time. The caller must hold
// the lock.
func (c *HealthChecker) schedule(id string, k *watchedContainer) {
	c.checks.AddAfter(containerKey{k.w.ID, id}, time.Until(k.nextCheck))
}

// MarkRestarted records that the container's main process was restarted. Until
// its start period has passed, a failed check does not count.
func (c *HealthChecker) MarkRestarted(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.watched[id]; k != nil {
		h := k.w.Healthcheck
		k.lastHealthy, k.failures, k.known = time.Time{}, 0, time.Time{}
		k.graceUntil = time.Now().Add(h.StartPeriod)
		k.nextCheck = time.Now().Add(min(maxProbeInterval, h.Interval))
		c.schedule(id, k)
	}
}

// MarkStarting records that the container's main process may be restarted soon
// by a claim, perhaps on another server. Until its start period has passed, a
// failed check does not count.
func (c *HealthChecker) MarkStarting(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.watched[id]; k != nil {
		k.graceUntil, k.known = time.Now().Add(k.w.Healthcheck.StartPeriod), time.Time{}
	}
}

// Forget stops checking the container and removes its results.
func (c *HealthChecker) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.watched[id]; k != nil {
		c.checks.Forget(containerKey{k.w.ID, id})
	}
	delete(c.watched, id)
	delete(c.verified, id)
}

// markHealthy records that the container has just been found healthy.
func (c *HealthChecker) markHealthy(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verified[id] = true
	if k := c.watched[id]; k != nil {
		k.lastHealthy, k.failures = time.Now(), 0
		k.nextCheck = k.lastHealthy.Add(k.w.Healthcheck.Interval)
	}
}

// Distrust forgets that the container was found healthy: a claim checks it again.
func (c *HealthChecker) Distrust(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.verified, id)
	if k := c.watched[id]; k != nil {
		k.lastHealthy, k.known = time.Time{}, time.Time{}
	}
}

// Run checks the watched containers when they are due, until ctx ends.
func (c *HealthChecker) Run(ctx context.Context) error {
	c.checks.Run(ctx, parallelChecks, c.check)
	return nil
}

// applyResult updates a container whose health has changed: an unhealthy idle
// container is destroyed, an unhealthy claimed one is reported.
func (c *HealthChecker) applyResult(ctx context.Context, k Container, w *workload.Workload, err error, failures int) error {
	unhealthy := err != nil && failures >= w.Healthcheck.Retries
	switch {
	case unhealthy && k.State == Idle:
		end := c.beginLoss(k)
		f := c.describe(ctx, k, err)
		k.Reason = f.reason
		if _, err := c.store.UpdateContainer(ctx, f.record(BeginDestroy(k.ID, []State{Idle}, f.reason, unhealthyEvent(f)))); err != nil {
			end(nil)
			return err
		}
		end(&k)
		return nil
	case unhealthy && k.Health == Healthy:
		return c.recordUnhealthy(ctx, k, c.describe(ctx, k, err))
	case err == nil && k.Health == Unhealthy:
		_, err := c.store.UpdateContainer(ctx, noteHealth(k.ID, Healthy, failure{}))
		return err
	}
	return nil
}

// describe returns what is recorded of a failed check.
func (c *HealthChecker) describe(ctx context.Context, k Container, cause error) failure {
	o, state := c.outputs.read(ctx, k, cause)
	return newFailure(k, cause, o, state)
}

func unhealthyEvent(f failure) activity.Event {
	main, check := f.excerpts()
	return activity.Event{
		Type: activity.ContainerUnhealthy, Message: f.reason,
		Data: activity.Data(activity.ContainerUnhealthyData{Check: check, Output: main}),
	}
}

// recordUnhealthy records that a claimed container is unhealthy.
func (c *HealthChecker) recordUnhealthy(ctx context.Context, k Container, f failure) error {
	m := noteHealth(k.ID, Unhealthy, f)
	m.Output, m.Events = f.output, []activity.Event{unhealthyEvent(f)}
	_, err := c.store.UpdateContainer(ctx, m)
	return err
}

// noteHealth returns the change of the health of a claimed container, unless it has
// exited or its destruction was forced since the check.
func noteHealth(id string, h Health, f failure) Transition {
	return Note(id, Claimed, func(k *Container) {
		if k.Health != Exited && !k.IsTerminating() {
			k.Health, k.Reason, k.ReasonChain = h, f.reason, f.chain
			f.noteOutput(k)
		}
	})
}
