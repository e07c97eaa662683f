package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/workload"
)

// listUploads adds the active claims whose periodic upload is due, the longest
// overdue first, and returns when the next one is.
func (s *Scheduler) listUploads(ctx context.Context) (time.Time, error) {
	records, err := s.pools.Workloads(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("list the workloads: %w", err)
	}
	listed := map[string]bool{}
	overdue, next, err := s.listActive(ctx, records, &s.shortestInterval, uploadInterval, func(c claim.Claim, interval time.Duration) (at, lookAt time.Time) {
		listed[c.ID] = true
		at = s.failedUploads.last(c).Add(interval)
		return at, at
	})
	slices.SortStableFunc(overdue, func(a, b claim.Claim) int { return s.failedUploads.last(a).Compare(s.failedUploads.last(b)) })
	for _, c := range overdue {
		s.uploads.add(c)
	}
	if err == nil {
		s.failedUploads.prune(listed)
	}
	return next, err
}

// uploadInterval is the interval of a workload's periodic uploads; 0 if it has
// none.
func uploadInterval(w *workload.Workload) time.Duration {
	if w.Sync == nil {
		return 0
	}
	return w.Sync.Policy.Interval
}

// upload uploads the state of a claim that is still due, and returns when it is due
// again.
func (s *Scheduler) upload(ctx context.Context, id string) (time.Time, error) {
	next, err := s.uploadIfDue(ctx, id)
	if errors.Is(err, claim.ErrClaimNotFound) || errors.Is(err, claim.ErrNotActive) {
		return time.Time{}, nil
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("periodic upload failed; retrying", "claim", id, "error", err)
	}
	return next, err
}

// uploadIfDue uploads the state of a claim that is still due. A failure is
// recorded as an event, and the claim is due again after the interval.
func (s *Scheduler) uploadIfDue(ctx context.Context, id string) (next time.Time, err error) {
	c, err := s.store.Claim(ctx, id)
	if err != nil {
		return next, err
	}
	w, err := s.current(ctx, c.Workload)
	if err != nil {
		return next, err
	}
	interval := uploadInterval(w)
	if c.State != claim.Active || interval <= 0 {
		return next, nil
	}
	if at := s.failedUploads.last(c).Add(interval); at.After(time.Now()) {
		return at, nil
	}
	created, _, err := s.pools.Catalog.Revision(ctx, c.Workload, c.Revision)
	if errors.Is(err, pool.ErrWorkloadNotFound) || err == nil && created.Sync == nil {
		return next, nil
	}
	if err == nil {
		_, _, err = s.claims.StateSync.Upload(ctx, c, created, "interval")
	}
	if err != nil {
		s.failedUploads.record(id)
	}
	return time.Now().Add(interval), err
}

// listTerminating adds the claims whose containers terminate.
func (s *Scheduler) listTerminating(ctx context.Context) (never time.Time, err error) {
	terminating, err := s.pools.Containers(ctx, pool.ContainerFilter{States: []pool.State{pool.Claimed}, IsTerminating: true})
	for _, k := range terminating {
		s.terminating.add(claim.Claim{ID: k.Claim, Workload: k.Workload})
	}
	return never, err
}

// saveTerminating saves the state of a claim whose container terminates: it uploads that
// of an active one, and repeats a release that has failed, unless that would lose a later
// state. A failure is retried as long as the container terminates. A release in progress
// uploads the state by itself.
func (s *Scheduler) saveTerminating(ctx context.Context, id string) (never time.Time, err error) {
	c, err := s.store.Claim(ctx, id)
	if err == nil && (c.State == claim.Active || c.State == claim.ReleaseFailed && c.FailureReason != claim.FailedStale) {
		err = s.saveIfTerminating(ctx, c)
	}
	if errors.Is(err, claim.ErrClaimNotFound) || errors.Is(err, claim.ErrNotActive) || errors.Is(err, pool.ErrContainerNotFound) {
		return never, nil
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("saving the state of a terminating container failed; retrying", "claim", id, "error", err)
	}
	return never, err
}

func (s *Scheduler) saveIfTerminating(ctx context.Context, c claim.Claim) error {
	k, err := s.pools.Container(ctx, c.Container)
	if err != nil || k.Claim != c.ID || !k.IsTerminating() {
		return err
	}
	if c.State == claim.ReleaseFailed {
		_, err = s.releases.Release(ctx, c.ID, release.Request{Reason: "its container is terminating", Discard: c.Discard})
		return err
	}
	w, _, err := s.pools.Catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil || w.Sync == nil || !w.Sync.Policy.OnRelease && w.Sync.Policy.Interval <= 0 {
		return err
	}
	_, _, err = s.claims.StateSync.Upload(ctx, c, w, "its container is terminating")
	return err
}

// lastUploadAt returns when the state of an active claim was last uploaded, or
// when the claim began.
func lastUploadAt(c claim.Claim) time.Time {
	last := c.CreatedAt
	for _, t := range []*time.Time{c.ActiveAt, c.SyncedAt} {
		if t != nil && t.After(last) {
			last = *t
		}
	}
	return last
}

// failedUploads are the periodic uploads that have failed.
type failedUploads struct {
	mu sync.Mutex           // guards at
	at map[string]time.Time // by claim: when its last one failed
}

// record records that an upload of a claim has failed.
func (f *failedUploads) record(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[string]time.Time{}
	}
	f.at[id] = time.Now()
}

// last returns when the state of a claim was last uploaded, or an upload failed.
func (f *failedUploads) last(c claim.Claim) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := f.at[c.ID]; at.After(lastUploadAt(c)) {
		return at
	}
	return lastUploadAt(c)
}

// prune removes the failures of claims that are not listed: they have ended, or
// are not uploaded periodically any more.
func (f *failedUploads) prune(listed map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.at, func(id string, _ time.Time) bool { return !listed[id] })
}
