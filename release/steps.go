package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// releasing is a release under way: what its steps share.
type releasing struct {
	*Service
	claim     claim.Claim
	request   Request
	discard   *atomic.Bool // somebody who asks for the release wants that
	w         *workload.Workload
	container pool.Container
	timings   flow.Timings
	runs      []hooks.Run // of pre_release
	warnings  []string
	spoiled   string // why the container cannot go back to the pool
	stopped   bool   // its processes were ended, for the state to be read
	lost      string // why what the tenant changed since its last snapshot is lost
}

// run does all that a release does, in order. There is nothing to undo: each
// step is safe to do again, and a release only goes forward.
func (s *Service) run(ctx context.Context, f *flight, c claim.Claim, r Request) (claim.Claim, error) {
	if r.Reason == "" {
		r.Reason = "the tenant released it"
	}
	m := &releasing{Service: s, claim: c, request: r, discard: &f.discard, timings: flow.Timings{}}
	timings, err := flow.Run(ctx, "release",
		flow.Step{Name: "releasing", Do: m.begin},
		flow.Step{Name: string(hooks.PreRelease), Do: m.preRelease},
		flow.Step{Name: "upload", When: m.syncs, Do: m.upload},
		flow.Step{Name: "dispose", Do: m.settle},
	)
	maps.Copy(m.timings, timings)
	if unkept, ok := errors.AsType[*claim.SyncError](err); ok {
		return m.postpone(ctx, unkept)
	}
	if err == nil {
		// It records how long the others took.
		_, err = flow.Run(ctx, "release", flow.Step{Name: "released", Do: m.finish})
	}
	if err != nil {
		return m.claim, err
	}
	s.pools.Wake(c.Workload)
	return m.claim, nil
}

// begin stops new work: from here on the claim is not the tenant's to use.
func (m *releasing) begin(ctx context.Context) error {
	discard := m.discard.Load()
	if m.claim.State == claim.Active || m.claim.State == claim.ReleaseFailed {
		failed := m.claim.Reason
		c, err := m.store.MoveClaim(ctx, claim.Move{
			ID: m.claim.ID, From: []claim.State{claim.Active, claim.ReleaseFailed}, To: claim.Releasing,
			If: m.request.only,
			Set: func(c *claim.Claim) {
				failed = c.Reason
				c.Reason, c.RetryAt = m.request.Reason, nil
				c.Discard = c.Discard || m.discard.Load()
			},
			Events: []activity.Event{{
				Type: activity.ClaimReleasing, Message: "claim is being released: " + m.request.Reason,
				Data: activity.Data(map[string]any{"discard": discard || m.claim.Discard}),
			}},
		})
		if errors.Is(err, pool.ErrMoved) {
			return errBegun
		}
		if err != nil {
			return err
		}
		m.claim = c
		if m.request.giveUp {
			m.spoiled, m.lost = "its tenant's state could not be kept", failed
		}
	}
	if discard && !m.claim.Discard {
		// The release was begun without that wish, and whoever comes after this
		// server must know of it.
		if err := m.wish(ctx, m.claim.ID); err != nil {
			return err
		}
		m.claim.Discard = true
	}
	var err error
	if m.container, err = m.pools.Container(ctx, m.claim.Container); err != nil {
		return fmt.Errorf("container %s: %w", m.claim.Container, err)
	}
	if m.container.Claim != m.claim.ID {
		return fmt.Errorf("container %s is not claim %s's: %w", m.claim.Container, m.claim.ID, pool.ErrMoved)
	}
	m.w, _, err = m.pools.Catalog.Revision(ctx, m.claim.Workload, m.claim.Revision)
	if err != nil {
		return err
	}
	return m.spoken()
}

// spoken is an error when this server cannot speak to the container's program,
// and that is to be waited for: a newer server made it, or it is too old, and
// holds the only copy of its tenant's state, which another server can take.
func (m *releasing) spoken() error {
	err := m.rt.Protocols().Check(m.container.Protocol)
	if !errors.Is(err, runtime.ErrTooOld) {
		return err
	}
	if m.syncs() && !m.claim.Discard {
		return &claim.SyncError{Direction: "upload", Err: err}
	}
	m.spoiled = err.Error()
	return nil
}

// preRelease runs the hooks of that point, each once for a claim however often
// its release is begun. What fails is a warning. They are not cut off with the
// release: they would be killed, and never run again.
func (m *releasing) preRelease(ctx context.Context) error {
	hs := m.w.Hooks[hooks.PreRelease]
	if len(hs) == 0 {
		return nil
	}
	idle := "" // why they cannot run
	switch {
	case m.container.Health == pool.Dead:
		idle = "the container is dead"
	case m.rt.Protocols().IsTooOld(m.container.Protocol):
		idle = runtime.ErrTooOld.Error()
	default:
		// An engine that is away is waited for by the release, not by its hooks,
		// whose time would run out.
		_, err := m.rt.Status(ctx, m.claim.Container)
		if errors.Is(err, runtime.ErrUnavailable) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if idle != "" {
		m.runs, err = m.runner.Skip(ctx, hooks.PreRelease, hs, m.claim.Subject(), idle)
		m.warnings = append(m.warnings, "pre_release did not run: "+idle)
	} else {
		m.runs, err = m.runner.Run(ctx, hooks.PreRelease, hs, m.claim.Subject())
	}
	for _, r := range m.runs {
		if r.State == hooks.Unknown || r.State == hooks.Lost {
			m.spoiled = fmt.Sprintf("hook %q ended as %s", r.Hook, r.State)
		}
	}
	if errors.Is(err, runtime.ErrDoomed) {
		m.spoiled = "a process of a hook may still run"
	}
	failed := claim.Warnings(m.runs)
	if _, point := errors.AsType[*hooks.Error](err); point {
		failed, err = append(failed[:max(len(failed)-1, 0)], err.Error()), nil // it says more of the one that failed the point
	}
	m.warnings = append(m.warnings, failed...)
	return err
}

// settle decides whether the container may go back to the pool, and ends
// everything in it that the tenant has left running.
func (m *releasing) settle(ctx context.Context) error {
	if m.spoiled == "" {
		reason, err := m.unfit(ctx)
		if err != nil {
			return err
		}
		m.spoiled = reason
	}
	if m.spoiled != "" && !m.needsMain() {
		return nil
	}
	m.pools.Health.Restarted(m.claim.Container)
	err := m.rt.Restart(ctx, m.claim.Container, m.claim.ContainerFence)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, runtime.ErrUnavailable) {
		// Nothing is known of the container. The claim stays as it is, with all
		// that is in it, until the engine answers.
		return fmt.Errorf("end what the tenant left running: %w", err)
	}
	if err != nil && m.spoiled == "" {
		m.log.Info("a released container could not be restarted and is destroyed", "container", m.claim.Container, "error", err)
		m.spoiled = "it could not be restarted: " + err.Error()
	}
	return nil
}

// needsMain reports whether a container that is going to be destroyed has
// pre_destroy hooks and no main process, because its state was to be read, now or
// at an earlier try.
func (m *releasing) needsMain() bool {
	return (m.stopped || m.claim.Failures > 0) && len(m.w.Hooks[hooks.PreDestroy]) > 0 && m.container.Health != pool.Dead
}

// unfit says why the container is of no more use, if it is not.
func (m *releasing) unfit(ctx context.Context) (string, error) {
	current, record, err := m.pools.Catalog.Current(ctx, m.claim.Workload)
	if errors.Is(err, pool.ErrNoWorkload) {
		return "its workload is deleted", nil
	}
	if err != nil {
		return "", err
	}
	if err := m.look(ctx); err != nil {
		return "", err
	}
	switch {
	case m.claim.Discard:
		return discarded, nil
	case record.Draining:
		return "the pool is draining", nil
	case current.Pool.Reuse == workload.ReuseNever:
		return "it was used and reuse is never", nil
	case pool.Outdated(m.container, record.Revision, m.rt.Protocols().Current) != "":
		return pool.Outdated(m.container, record.Revision, m.rt.Protocols().Current), nil
	case m.container.Health != pool.Healthy:
		return "it is " + string(m.container.Health), nil
	}
	return "", nil
}

// finish gives the container back and ends the claim, together. What others
// have recorded of the claim until that moment counts: that its tenant wants
// the container discarded, or that its state was taken.
func (m *releasing) finish(ctx context.Context) error {
	var taken string
	to := pool.Move{
		From: []pool.State{pool.Claimed}, To: pool.Idle,
		Set: func(c *pool.Container) {
			c.Claim = ""
			if taken != "" { // else it holds what it held before
				c.Snapshot = taken
			}
		},
		Events: []activity.Event{{Type: activity.ContainerReleased, Message: "container is idle again"}},
	}
	condemn := func(why string) { to = pool.Condemn("", []pool.State{pool.Claimed}, why) }
	if m.spoiled != "" {
		condemn(m.spoiled)
	}
	now := time.Now().UTC()
	c, err := m.store.MoveClaim(ctx, claim.Move{
		ID: m.claim.ID, From: []claim.State{claim.Releasing}, To: claim.Released, Container: &to,
		Set: func(c *claim.Claim) {
			taken = c.Snapshot
			switch {
			case m.spoiled != "":
			case c.Discard:
				condemn(discarded)
			case c.Health == string(pool.Dead), c.Health == string(pool.Unhealthy):
				condemn("it is " + c.Health)
			}
			c.ReleasedAt, c.Failures, c.RetryAt, c.FailureReason, c.FailedAt = &now, 0, nil, "", nil
			c.Hooks = append(c.Hooks, claim.Summaries(m.runs)...)
			c.Warnings = append(c.Warnings, m.warnings...)
			if c.Timings == nil {
				c.Timings = map[string]float64{}
			}
			maps.Copy(c.Timings, m.timings)
		},
		Events: append(m.losses(), activity.Event{
			Type: activity.ClaimReleased, Message: "claim is released: " + m.request.Reason,
			Data: activity.Data(map[string]any{"reason": m.request.Reason, "warnings": m.warnings, "timings": m.timings}),
		}),
	})
	if err != nil {
		return fmt.Errorf("record the release: %w", err)
	}
	m.claim = c
	return nil
}

// discarded is why a container goes whose tenant wants nothing of it kept.
const discarded = "its tenant discarded it"
