// Package schedule starts releases and uploads that no caller requests: of idle
// claims, of failed releases that are due for a retry, of releases that a server
// or an outage has interrupted, and uploads at the intervals of workloads.
//
// Each loop has a list, which adds the claims that are due to a queue, and a
// handler, which reads the claim again when its turn has come. It promises that
// slow releases of one workload do not delay those of others, and that what
// fails is retried with backoff. What a release does is left to package release.
package schedule

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// The waits of the loops: after an error, and at most between two lists, because
// a workload can be applied at any time.
const (
	minBackoff      = time.Second
	maxBackoff      = time.Minute
	maxListInterval = 30 * time.Second
	// When a thousand releases fail together, one list serves many failures.
	coalesceDelay = time.Second
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

	resumes, due, uploads, lifetimes *loop
}

// New returns a scheduler, which does nothing before Run and RunResumes.
func New(store claim.Store, claims *claim.Service, pools *pool.Pools, rt runtime.Runtime, releases *release.Service, log *slog.Logger) *Scheduler {
	s := &Scheduler{store: store, claims: claims, pools: pools, rt: rt, releases: releases, log: log}
	s.resumes = newLoop(parallelResumes, s.listInterrupted, s.resume, log)
	s.due = newLoop(parallelIdleReleases, s.listDue, s.releaseDue, log)
	s.lifetimes = newLoop(parallelIdleReleases, s.listExpired, s.releaseExpired, log)
	s.uploads = newLoop(parallelUploads, s.listUploads, s.upload, log)
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
	g.Go(func() error { return s.due.run(ctx, s.releases.Failed()) })
	g.Go(func() error { return s.uploads.run(ctx, nil) })
	g.Go(func() error { return s.lifetimes.run(ctx, nil) })
	return g.Wait()
}

// RunResumes completes the interrupted releases of this server, including those
// that it took over, until ctx ends. They run concurrently, and each is retried
// with backoff until it completes.
func (s *Scheduler) RunResumes(ctx context.Context) error {
	return s.resumes.run(ctx, s.releases.Interrupted())
}

// claimKey is a claim in a queue whose groups are the workloads.
type claimKey struct{ workload, id string }

func (k claimKey) group() string { return k.workload }

// loop handles claims, which its list adds to a queue.
type loop struct {
	slots  int
	list   func(ctx context.Context) (next time.Time, err error)
	handle func(ctx context.Context, id string) error
	log    *slog.Logger
	lists  *workqueue.Queue[struct{}] // one key: to list the claims
	claims *workqueue.Queue[claimKey]
}

// newLoop returns a loop. One workload gets at most half of the slots, and the
// last quarter is for workloads without an execution.
func newLoop(slots int, list func(context.Context) (time.Time, error), handle func(context.Context, string) error, log *slog.Logger) *loop {
	retries := backoff.Policy{Min: minBackoff, Max: maxBackoff, Jitter: 0.2}
	return &loop{
		slots: slots, list: list, handle: handle, log: log,
		lists: workqueue.New(workqueue.Options[struct{}]{Backoff: retries, Log: log}),
		claims: workqueue.New(workqueue.Options[claimKey]{
			Group: claimKey.group, PerGroup: slots / 2, Reserved: slots / 4, Backoff: retries, Log: log,
		}),
	}
}

// add has a claim handled as soon as possible, if it is not handled already and
// has not just failed.
func (l *loop) add(c claim.Claim) { l.claims.Add(claimKey{c.Workload, c.ID}) }

// run lists the claims at the times that list returns and soon after each wake,
// and handles them, until ctx ends.
func (l *loop) run(ctx context.Context, wake <-chan struct{}) error {
	l.lists.Add(struct{}{})
	var g errgroup.Group
	g.Go(func() error {
		l.lists.Run(ctx, 1, func(ctx context.Context, t *workqueue.Task[struct{}]) error {
			next, err := l.list(ctx)
			if err != nil && ctx.Err() == nil {
				l.log.Warn("listing claims that are due failed; retrying", "error", err)
			}
			l.lists.AddAfter(t.Key, time.Until(next))
			return err
		})
		return nil
	})
	g.Go(func() error {
		l.claims.Run(ctx, l.slots, func(ctx context.Context, t *workqueue.Task[claimKey]) error {
			return l.handle(ctx, t.Key.id)
		})
		return nil
	})
	for {
		select {
		case <-ctx.Done():
			return g.Wait()
		case <-wake:
			l.lists.AddAfter(struct{}{}, coalesceDelay)
		}
	}
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

// earliest returns the earlier of two times.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
