// Package schedule starts releases and uploads that no caller requests: of idle
// claims, of failed releases that are due for a retry, of releases that a server
// or an outage has interrupted, and uploads at the intervals of workloads and of
// what is in a container that terminates.
//
// Each loop sleeps until a claim is due. Then it adds the claims that are due to a
// queue, and a handler reads each again when its turn has come. Events of changes
// that may have a claim due earlier wake it. It promises that
// slow releases of one workload do not delay those of others, and that what
// fails is retried with backoff. What a release does is left to package release.
package schedule

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// The waits of the loops: after an error, and until a workload that cannot be read is
// read again.
const (
	minBackoff   = time.Second
	maxBackoff   = time.Minute
	unreadableIn = 30 * time.Second
	// When a thousand claims become active or fail together, one look serves them.
	coalesceDelay = 500 * time.Millisecond
	// lateDelay is how long a call may take that a release begins with.
	lateDelay = 30 * time.Second
)

// The limits of concurrent executions: resumed releases; idle ones together with
// retries of failed ones; periodic uploads.
const (
	parallelResumes      = 32
	parallelIdleReleases = 16
	parallelUploads      = 8
)

// Scheduler has the loops of one server.
type Scheduler struct {
	store    claim.Store
	claims   *claim.Service
	pools    *pool.Pools
	rt       runtime.Runtime
	releases *release.Service
	log      *slog.Logger
	window   activityWindow

	failedUploads failedUploads
	// shortestTTL and shortestInterval are those of all workloads, when they were last
	// read; 0 for none.
	shortestTTL, shortestInterval atomic.Int64

	resumes, due, uploads, lifetimes, terminating *loop
}

// New returns a scheduler, which does nothing before Run and RunResumes.
func New(store claim.Store, claims *claim.Service, pools *pool.Pools, rt runtime.Runtime, releases *release.Service, log *slog.Logger) *Scheduler {
	s := &Scheduler{store: store, claims: claims, pools: pools, rt: rt, releases: releases, log: log}
	s.resumes = newLoop("listing interrupted releases", parallelResumes, s.listInterrupted, s.resume, log)
	s.due = newLoop("listing idle claims and failed releases", parallelIdleReleases, s.listDue, s.releaseDue, log)
	s.lifetimes = newLoop("listing ended lifetimes", parallelIdleReleases, s.listExpired, s.releaseExpired, log)
	s.uploads = newLoop("listing due uploads", parallelUploads, s.listUploads, s.upload, log)
	s.terminating = newLoop("listing terminating containers", parallelUploads, s.listTerminating, s.saveTerminating, log)
	return s
}

// Run releases claims whose tenants have been idle for the claim_idle_ttl of
// their pool, retries failed releases, and uploads the state of claims at their
// workloads' intervals, until ctx ends. One server is enough for it. These
// count as activity: the claim becoming active, a repeated claim by the tenant,
// Touch, an activity that its program reports (as package publish specifies), and a
// change of the files of the tenant's state. Other processes in
// the container and reads of the claim do not count: they are not evidence of
// the tenant.
func (s *Scheduler) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.due.run(ctx) })
	g.Go(func() error { return s.uploads.run(ctx) })
	g.Go(func() error { return s.lifetimes.run(ctx) })
	g.Go(func() error { return s.terminating.run(ctx) })
	return g.Wait()
}

// RunResumes completes the interrupted releases of this server, including those
// that it took over, until ctx ends. They run concurrently, and each is retried
// with backoff until it completes.
func (s *Scheduler) RunResumes(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return s.resumes.run(ctx) })
	for interrupted := s.releases.Interrupted(); ; {
		select {
		case <-ctx.Done():
			return g.Wait()
		case <-interrupted:
			s.resumes.WakeAfter(coalesceDelay)
		}
	}
}

// EventHandlers returns what the loops do on events of any server: those that may have
// something due earlier wake them.
func (s *Scheduler) EventHandlers() dispatch.Subscription {
	used := func(activity.Event) { s.wakeForUse() }
	return dispatch.Subscription{
		Name: "releases that are due",
		On: map[activity.Type]func(activity.Event){
			activity.ClaimActivated: func(activity.Event) {
				s.lifetimes.WakeAfter(claim.MinLifetime)
				s.wakeForUse()
			},
			// Storage may record it after the call has failed.
			activity.ClaimReleasing: func(activity.Event) { s.resumes.WakeAfter(lateDelay) },
			activity.ClaimExtended:  func(activity.Event) { s.lifetimes.WakeAfter(claim.MinLifetime) },
			activity.ClaimReleaseFailed: func(activity.Event) {
				s.due.WakeAfter(coalesceDelay)
				s.terminating.WakeAfter(coalesceDelay)
			},
			activity.ContainerTerminating: func(e activity.Event) {
				if e.Claim != "" {
					s.terminating.add(claim.Claim{ID: e.Claim, Workload: e.Workload})
				}
			},
			activity.WorkloadApplied: func(activity.Event) { s.due.Wake(); s.uploads.Wake() },
			activity.WaitSignalled:   used,
			activity.WaitTimedOut:    used,
			activity.WaitAborted:     used,
			activity.WaitCancelled:   used,
		},
		Resync: func(context.Context) error {
			for _, l := range []*loop{s.due, s.uploads, s.lifetimes, s.terminating} {
				l.Wake()
			}
			return nil
		},
	}
}

// wakeForUse has the claims listed when one that was last used now is due, at the
// earliest.
func (s *Scheduler) wakeForUse() {
	if ttl := time.Duration(s.shortestTTL.Load()); ttl > 0 {
		s.due.WakeAfter(max(coalesceDelay, ttl-minGrace))
	}
	if interval := time.Duration(s.shortestInterval.Load()); interval > 0 {
		s.uploads.WakeAfter(interval)
	}
}

// claimKey is a claim in a queue whose groups are the workloads.
type claimKey struct{ workload, id string }

func (k claimKey) group() string { return k.workload }

// loop handles claims, which its look adds to a queue.
type loop struct {
	*workqueue.Loop
	slots  int
	handle func(ctx context.Context, id string) (next time.Time, err error)
	claims *workqueue.Queue[claimKey]
}

// newLoop returns a loop. handle returns when the claim is due next; zero if it is not,
// or if that has an event. One workload gets at most half of the slots, and the last
// quarter is for workloads without an execution.
func newLoop(what string, slots int, look workqueue.Look, handle func(context.Context, string) (time.Time, error), log *slog.Logger) *loop {
	retries := backoff.Policy{Min: minBackoff, Max: maxBackoff, Jitter: 0.2}
	return &loop{
		Loop: workqueue.NewLoop(what, look, retries, log), slots: slots, handle: handle,
		claims: workqueue.New(workqueue.Options[claimKey]{
			Group: claimKey.group, PerGroup: slots / 2, Reserved: slots / 4, Backoff: retries, Log: log,
		}),
	}
}

// add has a claim handled as soon as possible, if it is not handled already and
// has not just failed.
func (l *loop) add(c claim.Claim) { l.claims.Add(claimKey{c.Workload, c.ID}) }

// run lists the claims when one is due, and handles them, until ctx ends.
func (l *loop) run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return l.Run(ctx) })
	g.Go(func() error {
		l.claims.Run(ctx, l.slots, func(ctx context.Context, t *workqueue.Task[claimKey]) error {
			next, err := l.handle(ctx, t.Key.id)
			l.WakeAt(next)
			return err
		})
		return nil
	})
	return g.Wait()
}

// releaseResult logs the error of a release, and returns it if the release is to
// be retried. A retained claim is already recorded with its next retry. One with
// a newer server's container is left to such a server.
func (s *Scheduler) releaseResult(ctx context.Context, id string, err error) error {
	_, retained := errors.AsType[*release.FailedError](err)
	if retained || errors.Is(err, release.ErrNotIdle) || errors.Is(err, claim.ErrClaimNotFound) {
		return nil
	}
	if err != nil && !errors.Is(err, runtime.ErrNewer) && ctx.Err() == nil {
		s.log.Warn("claim release failed; retrying", "claim", id, "error", err)
	}
	return err
}

// earliest returns the earlier of two times; zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
