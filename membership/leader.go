package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/flow"
)

// takeoverRetryDelay is the time between attempts of a new leader to take over
// from expired servers, before it leads.
const takeoverRetryDelay = time.Second

// orphansInterval is the time between two searches for work of servers that have
// no row.
const orphansInterval = time.Minute

// Callbacks are what a leader does.
type Callbacks struct {
	// OnLead does the leader's work until ctx ends. It returns only when nothing
	// of that work is running any more: another server leads from then on. Its
	// error ends Run.
	OnLead func(ctx context.Context) error
	// TakeOver resumes the work of a server that can no longer write, or, with
	// "", the work of servers that have no row. It is called before OnLead,
	// concurrently with it, and by one goroutine at a time. After an error it is
	// called again. It may be called again after it succeeded.
	TakeOver func(ctx context.Context, replica string) error
}

// Run campaigns until this server leads, and leads until ctx ends. The
// leadership is kept until OnLead has returned, because two leaders would remove
// the same containers and run their hooks; then Run resigns. A server whose ctx
// has ended keeps its leadership but does not acquire it. It returns the error
// of OnLead. Renew has to run concurrently.
func (m *Member) Run(ctx context.Context, c Callbacks) error {
	term, mayLead := m.campaign(ctx)
	if !mayLead {
		return nil
	}
	var err error
	if term > 0 {
		err = m.lead(ctx, term, c)
	}
	resignCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), LeaseTime)
	defer cancel()
	return errors.Join(err, m.resign(resignCtx))
}

// campaign campaigns after each renewal, and returns the term when this server
// leads, or 0 when ctx ends. The answer of a campaign may be so late that another
// server leads by then, so a renewal confirms it. mayLead is false if this server
// does not lead for sure: the answer of the last campaign was not lost.
func (m *Member) campaign(ctx context.Context) (term int64, mayLead bool) {
	for m.awaitRenewal(ctx) == nil {
		term, err := m.db.Campaign(ctx, m.lease.othersTime())
		mayLead = term > 0 || err != nil
		if term > 0 {
			m.leads.Store(true)
			if err = m.renew(ctx); err == nil {
				return term, true
			}
		}
		if err != nil && ctx.Err() == nil {
			m.log.Warn("campaign for leadership failed; retrying", "error", err)
		}
	}
	return 0, mayLead
}

func (m *Member) resign(ctx context.Context) error {
	m.leads.Store(false)
	return m.db.Resign(ctx)
}

// lead takes over from expired servers, and so from the last leader: until that
// one is fenced, both would act. Then it leads.
func (m *Member) lead(ctx context.Context, term int64, c Callbacks) error {
	t := takeover{member: m, resume: c.TakeOver, fenced: map[string]Replica{}}
	for first := true; first || t.incomplete; first = false {
		if !first && flow.Sleep(ctx, takeoverRetryDelay) != nil {
			return nil
		}
		t.run(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	m.log.Info("became leader", "term", term)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.OnLead(ctx) })
	g.Go(func() error {
		for m.awaitRenewal(ctx) == nil {
			t.run(ctx)
		}
		return nil
	})
	return g.Wait()
}

// takeover takes over from expired servers, as often as run is called.
type takeover struct {
	member *Member
	resume func(ctx context.Context, replica string) error
	fenced map[string]Replica // their work is not resumed yet
	// orphansAt is when the work of servers without a row is resumed next.
	orphansAt time.Time
	// incomplete is whether the last run left something to do.
	incomplete bool
}

// run fences every expired server and then resumes their work. It fences all of
// them first: one may be a former leader that was itself taking over from
// another. It logs errors; the next run retries.
func (t *takeover) run(ctx context.Context) {
	t.incomplete = false
	if err := t.fence(ctx); err != nil {
		t.failed(ctx, err)
	}
	for _, id := range slices.Sorted(maps.Keys(t.fenced)) {
		if err := t.finish(ctx, t.fenced[id]); err != nil {
			t.failed(ctx, fmt.Errorf("take over from server %s: %w", id, err))
			continue
		}
		delete(t.fenced, id)
	}
	if t.incomplete || time.Now().Before(t.orphansAt) {
		return
	}
	if err := t.resume(ctx, ""); err != nil {
		t.failed(ctx, fmt.Errorf("resume work without a server: %w", err))
		return
	}
	t.orphansAt = time.Now().Add(orphansInterval)
}

func (t *takeover) failed(ctx context.Context, err error) {
	t.incomplete = true
	if ctx.Err() == nil {
		t.member.log.Warn("takeover failed; retrying", "error", err)
	}
}

// fence fences every expired server.
func (t *takeover) fence(ctx context.Context) error {
	m := t.member
	expired, err := m.db.Expired(ctx)
	if err != nil {
		return err
	}
	var errs error
	for _, r := range expired {
		// The query, and so Fence, may take long: during an outage of the database no
		// server can renew its lease, nor can this one. What counts is the time before
		// the call.
		asOf := m.lease.othersTime()
		if !r.hasExpired(asOf) {
			t.incomplete = true
			continue
		}
		fenced, err := m.db.Fence(ctx, r.ID, asOf)
		switch {
		case errors.Is(err, ErrNotExpired), errors.Is(err, ErrReplicaNotFound):
		case err != nil:
			errs = errors.Join(errs, err)
		default:
			m.log.Warn("taking over from expired server", "server", r.ID, "host", r.Host)
			t.fenced[r.ID] = fenced
		}
	}
	return errs
}

// finish resumes the work of a fenced server and removes its row.
func (t *takeover) finish(ctx context.Context, r Replica) error {
	if err := t.resume(ctx, r.ID); err != nil {
		return err
	}
	err := t.member.db.RemoveReplica(ctx, r)
	if errors.Is(err, ErrReplicaNotFound) { // another server has taken over since
		return nil
	}
	return err
}
