package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// maxContainers is how many containers a claim tries before it fails, when one
// after the other turns out unfit before any hook has run.
const maxContainers = 3

// making is a claim in the making: what its steps share.
type making struct {
	*Service
	request Request
	current *workload.Workload // as applied now
	record  pool.Record

	claim   Claim
	begun   bool               // its hooks were, by a server that is no more
	held    bool               // the tenant holds it already
	w       *workload.Workload // as the reserved container was made
	changed bool               // something was done to the container
	empty   bool               // it has to be emptied: what is in it is not the tenant's, or not its latest
	latest  snapshot.Snapshot  // the tenant's state, as it was compared
	seeds   string
	runs    []hooks.Run
	timings flow.Timings
}

// make does all that a claim does, in order. Until a container is reserved it
// ends with ctx, the caller's; after that with work.
func (s *Service) make(ctx, work context.Context, id string, r Request, w *workload.Workload, record pool.Record) (Claim, bool, error) {
	m := &making{
		Service: s, request: r, current: w, record: record, timings: flow.Timings{},
		claim: Claim{ID: id, Workload: r.Workload, Tenant: r.Tenant},
	}
	// Waiting for a container ends when the caller leaves, or when the claim
	// is released by somebody else.
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(work, func() { stop(context.Cause(work)) })()

	var err error
	for tries := 1; ; tries++ {
		err = m.prepare(wait, work)
		if err == nil && m.held {
			return m.touch(work)
		}
		if err == nil {
			err = m.activate(work)
			break
		}
		if !errors.Is(err, errUnfit) || tries == maxContainers || work.Err() != nil {
			break
		}
	}
	if err == nil {
		return m.claim, true, nil
	}
	return m.fail(work, err)
}

// refillPause is how long after a reservation the pool is filled up again.
const refillPause = 100 * time.Millisecond

// errUnfit says that the reserved container could not be made ready, and has
// been given up; another may do.
var errUnfit = errors.New("the container was unfit")

// prepare reserves a container and makes it ready for the tenant. A container
// that turns out unfit is given up, and the claim is without one again.
func (m *making) prepare(wait, work context.Context) error {
	begin := time.Now()
	err := m.reserve(wait)
	m.timings["reserve"] += float64(time.Since(begin).Microseconds()) / 1000
	if err != nil {
		return &flow.Error{Step: "reserve", Err: err}
	}
	if m.held {
		return nil
	}
	// The next container is made a moment later: making one takes the engine a
	// hundred times what a claim takes, and a burst should not pay for it.
	id := m.claim.Workload
	time.AfterFunc(refillPause, func() { m.pools.Fill(id) })
	timings, err := flow.Run(work, "claim",
		flow.Step{Name: "load", Do: m.find, Undo: m.giveUp},
		flow.Step{Name: "compare", When: m.compares, Do: m.compare},
		flow.Step{Name: "wipe", When: func() bool { return m.empty }, Do: m.wipe},
		flow.Step{Name: "seed", When: m.lacksSeed, Do: m.seed},
		flow.Step{Name: "download", When: m.lacksState, Do: m.download},
		flow.Step{Name: "restart", When: func() bool {
			return m.empty || m.current.Restart == workload.RestartAlways ||
				m.changed && m.current.Restart != workload.RestartNever
		}, Do: m.restart},
		flow.Step{Name: "healthy", Do: func(ctx context.Context) error {
			if m.pools.Health.Fresh(m.w, m.claim.Container) {
				return nil
			}
			_, err := m.pools.Health.Await(ctx, m.w, m.claim.Container)
			return err
		}},
	)
	maps.Copy(m.timings, timings)
	return err
}

// activate runs the hooks and makes the claim the tenant's.
func (m *making) activate(work context.Context) error {
	timings, err := flow.Run(work, "claim", flow.Step{Name: string(hooks.PostClaim), Do: m.postClaim})
	maps.Copy(m.timings, timings)
	if err != nil {
		return err
	}
	_, err = flow.Run(work, "claim", flow.Step{Name: "activate", Do: m.enact})
	return err
}

// find looks up what the reserved container was made of, and what is in it.
func (m *making) find(ctx context.Context) error {
	w, r, err := m.pools.Catalog.Revision(ctx, m.claim.Workload, m.claim.Revision)
	m.w, m.seeds = w, r.Dir
	m.changed, m.latest = false, snapshot.Snapshot{}
	m.empty = m.claim.Source == Recycled
	return err
}

// giveUp takes an unfit container from the claim and has it destroyed. One to
// which nothing was done, while the engine or the sink of tenants' state was
// away, is put back: their loss must not cost what is in the containers. One
// that alone does not answer is put back, too, behind the others; it is destroyed
// when it has not answered for so long that it is tainted. Unless it is the
// tenant's own, another may do.
func (m *making) giveUp(ctx context.Context, cause error) error {
	_, unsynced := errors.AsType[*SyncError](cause)
	if !m.changed && (unsynced || errors.Is(cause, runtime.ErrUnavailable)) {
		silent := errors.Is(cause, runtime.ErrUnresponsive) && m.claim.Source != Affinity
		if err := m.putBack(ctx); err != nil || !silent {
			return err
		}
		return errUnfit
	}
	m.changed = false
	destroy := pool.Condemn("", []pool.State{pool.Claimed}, "it was unfit for a claim: "+cause.Error())
	if err := m.part(ctx, &destroy); err != nil {
		return fmt.Errorf("give container %s up: %w", m.claim.Container, err)
	}
	m.pools.Wake(m.claim.Workload)
	if unsynced {
		return nil // another container would meet the same sink
	}
	return errUnfit
}

// putBack gives the container back to the pool as it was.
func (m *making) putBack(ctx context.Context) error {
	fresh := m.claim.Source == Fresh
	back := pool.Move{
		From: []pool.State{pool.Claimed}, To: pool.Idle,
		Set: func(c *pool.Container) {
			c.Claim = ""
			if fresh {
				c.Tenant = "" // nothing of the tenant has been in it
			}
		},
		Events: []activity.Event{{Type: activity.ContainerReleased, Message: "container is idle again: nothing was done to it"}},
	}
	if err := m.part(ctx, &back); err != nil {
		return fmt.Errorf("put container %s back: %w", m.claim.Container, err)
	}
	return nil
}

// part takes the container from the claim, which stays pending.
func (m *making) part(ctx context.Context, container *pool.Move) error {
	c, err := m.store.MoveClaim(ctx, Move{
		ID: m.claim.ID, From: []State{Pending}, To: Pending, Container: container,
		Set: func(c *Claim) { c.Container, c.Revision, c.Source, c.Endpoint = "", "", "", runtime.Endpoint{} },
	})
	if err == nil {
		m.claim = c
	}
	return err
}

// touch notes that the tenant of a claim that is held still wants it, where
// that matters. Its release, for its tenant was idle, may have come first.
func (m *making) touch(ctx context.Context) (Claim, bool, error) {
	if m.current.Pool.ClaimIdleTTL <= 0 {
		return m.claim, false, nil
	}
	c, err := m.Touch(ctx, m.claim.ID)
	if err == nil && c.State != Active {
		return Claim{}, false, fmt.Errorf("%w: claim %s is %s", ErrReleasing, c.ID, c.State)
	}
	return c, false, err
}

// postClaim runs the hooks of that point: the only place that does, and once.
func (m *making) postClaim(ctx context.Context) error {
	hs := m.w.Hooks[hooks.PostClaim]
	if len(hs) == 0 {
		return nil
	}
	subject := m.claim.Subject()
	subject.New = !m.begun
	runs, err := m.runner.Run(ctx, hooks.PostClaim, hs, subject)
	m.runs = runs
	return err
}

// enact makes the claim active: from here on it stands.
func (m *making) enact(ctx context.Context) error {
	now := time.Now().UTC()
	c, err := m.store.MoveClaim(context.WithoutCancel(ctx), Move{
		ID: m.claim.ID, From: []State{Pending}, To: Active, Container: m.holding(),
		Set: func(c *Claim) {
			c.Hooks, c.Timings = Summaries(m.runs), m.timings
			c.Warnings, c.ActiveAt = Warnings(m.runs), &now
			if m.current.Pool.ClaimIdleTTL > 0 {
				c.TouchedAt = &now
			}
		},
		Events: []activity.Event{{
			Type: activity.ClaimActivated, Message: "claim is active",
			Data: activity.Data(map[string]any{"source": m.claim.Source, "timings": m.timings}),
		}},
	})
	if err == nil {
		m.claim = c
	}
	return err
}

// fail ends a claim that could not be made, with its container. One that is
// active all the same stands: only the answer to that was lost.
func (m *making) fail(work context.Context, cause error) (Claim, bool, error) {
	ctx := context.WithoutCancel(work)
	step := "reserve"
	if failed, ok := errors.AsType[*flow.Error](cause); ok {
		step, cause = failed.Step, failed.Err
	}
	if errors.Is(cause, errBeforeRow) {
		return Claim{}, false, cause
	}
	c, err := m.store.MoveClaim(ctx, failure(m.claim.ID, cause.Error(), func(c *Claim) {
		c.Hooks, c.Timings = Summaries(m.runs), m.timings
	}))
	m.pools.Wake(m.claim.Workload)
	if errors.Is(err, pool.ErrMoved) {
		c, err = m.store.Claim(ctx, m.claim.ID)
		if err == nil && c.State == Active {
			return c, true, nil
		}
		cause = ErrAborted // another server has ended it: it was released there
	}
	if err != nil {
		m.sweepSoon()
		cause = errors.Join(cause, fmt.Errorf("record that claim %s failed: %w", m.claim.ID, err))
		c = m.claim
	}
	if unavailable, ok := errors.AsType[*UnavailableError](cause); ok {
		return c, false, unavailable
	}
	return c, false, &FailedError{Claim: c, Step: step, Err: cause}
}

// failure is the move that ends a pending claim and gives its container up: a
// hook may have half changed it.
func failure(id, reason string, set func(*Claim)) Move {
	destroy := pool.Condemn("", []pool.State{pool.Claimed}, "its claim failed: "+reason)
	now := time.Now().UTC()
	return Move{
		ID: id, From: []State{Pending}, To: Failed, Container: &destroy,
		Set: func(c *Claim) {
			c.Reason, c.ReleasedAt = reason, &now
			if set != nil {
				set(c)
			}
		},
		Events: []activity.Event{{
			Type: activity.ClaimFailed, Message: "claim failed: " + reason,
			Data: activity.Data(map[string]any{"reason": reason}),
		}},
	}
}

// Summaries are what an answer shows of runs.
func Summaries(runs []hooks.Run) []HookSummary {
	out := make([]HookSummary, 0, len(runs))
	for _, r := range runs {
		out = append(out, HookSummary{
			Run: r.ID, Point: r.Point, Hook: r.Hook, Attempt: r.Attempt,
			State: r.State, ExitCode: r.ExitCode, Duration: r.Duration,
		})
	}
	return out
}

// Warnings tells of hooks that failed, a sentence for each, in order.
func Warnings(runs []hooks.Run) []string {
	last := map[string]hooks.Run{}
	var order []string
	for _, r := range runs {
		if _, seen := last[r.ID]; !seen {
			order = append(order, r.ID)
		}
		last[r.ID] = r
	}
	out := []string{}
	for _, id := range order {
		if r := last[id]; r.State != hooks.Succeeded && r.State != hooks.Skipped {
			out = append(out, (&hooks.Error{Run: r}).Error())
		}
	}
	return out
}
