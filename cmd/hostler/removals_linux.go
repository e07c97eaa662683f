package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/store"
)

// The times between removals while events are recorded: of old records, and of what
// tenants' programs have published. Of that, so many events of a claim are kept, for
// so long.
const (
	pruneInterval     = time.Hour
	publishedInterval = time.Minute
	publishedPerClaim = 1000
	usesPerClaim      = 1000 // of each kind
	publishedAge      = 7 * 24 * time.Hour
)

// removals remove what is kept for a time. They read nothing before something is due,
// unless there are events.
type removals struct {
	db                 *store.DB
	retention          time.Duration // of old records; 0: they are kept
	records, published *workqueue.Loop
}

func newRemovals(db *store.DB, log *slog.Logger) *removals {
	r := &removals{db: db}
	every := func(d time.Duration) backoff.Policy { return backoff.Policy{Min: d, Max: d} }
	r.records = workqueue.NewLoop("pruning old records", r.pruneRecords, every(pruneInterval), log)
	r.published = workqueue.NewLoop("pruning events of tenants", r.prunePublished, every(publishedInterval), log)
	return r
}

// changed is called after events.
func (r *removals) changed() {
	r.records.WakeAfter(pruneInterval)
	r.published.WakeAfter(publishedInterval)
}

// run removes what is due until ctx ends.
func (r *removals) run(ctx context.Context, retention time.Duration) error {
	r.retention = retention
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.records.Run(ctx) })
	g.Go(func() error { return r.published.Run(ctx) })
	return g.Wait()
}

// pruneRecords removes records that are older than the retention, unless that is 0. No
// record is due before the oldest event.
func (r *removals) pruneRecords(ctx context.Context) (next time.Time, err error) {
	if r.retention <= 0 {
		return next, nil
	}
	if _, err = r.db.Prune(ctx, store.Retention{Before: time.Now().Add(-r.retention)}); err != nil {
		return next, err
	}
	oldest, err := r.db.OldestEvent(ctx)
	return nextRemoval(oldest, r.retention, pruneInterval), err
}

// prunePublished removes what tenants' programs have published, and the events of what
// tenants do.
func (r *removals) prunePublished(ctx context.Context) (time.Time, error) {
	published := store.PublishedRetention{Before: time.Now().Add(-publishedAge), PerClaim: publishedPerClaim}
	_, err := r.db.PrunePublished(ctx, published)
	_, usesErr := r.db.PruneUses(ctx, usesPerClaim)
	oldest, oldestErr := r.db.OldestPublished(ctx)
	return nextRemoval(oldest, publishedAge, publishedInterval), errors.Join(err, usesErr, oldestErr)
}

// nextRemoval returns when the oldest of what is kept for some time is due: after the
// interval if it is already, because something still needs it.
func nextRemoval(oldest time.Time, age, interval time.Duration) time.Time {
	if oldest.IsZero() {
		return oldest
	}
	return time.Now().Add(max(interval, time.Until(oldest.Add(age))))
}

// removalHandlers has what may be due after events looked for.
func (s *server) removalHandlers() dispatch.Subscription {
	return dispatch.Subscription{Name: "removals", Flush: func() {
		s.removals.changed()
		s.memory.Changed()
	}}
}
