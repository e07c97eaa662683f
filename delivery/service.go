package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// The limits of attempts at once: of the server, of one hook, and those that only
// hooks without an attempt may use.
const (
	slots        = 64
	perHook      = 8
	reservedFree = 16
)

const (
	// batchSize is the maximum number of events that are read at once.
	batchSize = 500
	// fanOutDelay is how long the cursor waits for further events.
	fanOutDelay = 5 * time.Millisecond
	// sweepDelay is how long after an addition what the queue cannot hold is removed.
	sweepDelay = time.Minute
	// maxAge is how long a delivery may wait.
	maxAge = 7 * 24 * time.Hour
	// maxPerWorkload is how many deliveries of a workload may wait before those of
	// tenants' events are discarded.
	maxPerWorkload = 100_000
	// maxPerTenant is how many deliveries of the events that a tenant's programs
	// published may wait in a workload, so that one tenant does not fill its queue.
	maxPerTenant = 10_000
	// pendingDelay is the time between two checks whether a claim has become
	// active, for a command that waits for it.
	pendingDelay = time.Second
	// conflictDelay is the time before a key is looked at again that an operator
	// has changed.
	conflictDelay = 10 * time.Millisecond
)

// Workloads has the workloads as they are applied. pool.Catalog implements it.
type Workloads interface {
	// Current returns a workload, or pool.ErrWorkloadNotFound.
	Current(ctx context.Context, id string) (*workload.Workload, pool.Record, error)
}

// Options are what a Service needs in addition to its store.
type Options struct {
	Workloads Workloads
	Executors runner.Executors
	// Attempt returns the attempt that performs a run. runner.Runner.EventAttempt
	// implements it.
	Attempt func(ctx context.Context, h hooks.Hook, r hooks.Run, w *workload.Workload, e runner.Envelope) (runner.Attempt, error)
	// TestAttempt returns the run and the attempt of a test. It is
	// runner.Runner.TestAttempt.
	TestAttempt func(ctx context.Context, p hooks.Point, index int, w *workload.Workload, s runner.Subject, captured map[string]string) (hooks.Run, runner.Attempt, error)
	// OnEnd is called with each delivery that has ended. nil: not.
	OnEnd func(Delivery)
	// WakeFiller has the pool of a workload checked: it may be ready to be
	// deleted. nil: not.
	WakeFiller func(workload string)
	// OnTainted is called with a container in which a command may still run.
	// nil: not.
	OnTainted func(ctx context.Context, container, reason string) error
	Log       *slog.Logger
}

// Service delivers events. It is safe for concurrent use.
type Service struct {
	store Store
	o     Options
	log   *slog.Logger

	passes  *workqueue.Queue[pass]
	keys    *workqueue.Queue[Key]
	applied appliedHooks

	mu       sync.Mutex // guards the fields below
	isActive bool       // a workload may have event hooks
	leads    bool       // Run is running
	commands map[string]*command
	tested   map[string]bool // the claims of which a test is running here
}

// pass is one thing that is done for all deliveries.
type pass string

const (
	fanOutPass pass = "adding deliveries"
	listPass   pass = "listing deliveries"
	sweepPass  pass = "discarding deliveries"
)

// command is a command that runs in a container.
type command struct {
	container, claim string
	cancel           context.CancelCauseFunc
}

// New returns a service, which delivers nothing before Run.
func New(store Store, o Options) *Service {
	retries := backoff.Policy{Min: 100 * time.Millisecond, Max: 10 * time.Second, Jitter: 0.2}
	s := &Service{
		store: store, o: o, log: o.Log, isActive: true, commands: map[string]*command{}, tested: map[string]bool{},
		passes: workqueue.New(workqueue.Options[pass]{Backoff: retries, Log: o.Log}),
		keys: workqueue.New(workqueue.Options[Key]{
			Group: Key.group, Owner: Key.owner, PerGroup: perHook, Reserved: reservedFree, Backoff: retries, Log: o.Log,
		}),
	}
	s.applied.workloads = o.Workloads
	return s
}

// Run adds deliveries and attempts them until ctx ends, and returns when no
// attempt is running. Only the leader calls it: deliveries that are in state
// Running when it begins are those of a server that has terminated.
func (s *Service) Run(ctx context.Context) error {
	s.applied.invalidateAll()
	s.setActive()
	s.setLeads(true)
	defer s.setLeads(false)
	for _, p := range []pass{fanOutPass, listPass, sweepPass} {
		s.passes.Add(p)
	}
	var g errgroup.Group
	g.Go(func() error { s.passes.Run(ctx, 3, s.perform); return nil })
	g.Go(func() error { s.keys.Run(ctx, slots, s.deliver); return nil })
	return g.Wait()
}

func (s *Service) setLeads(does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads = does
}

// perform does what a pass says.
func (s *Service) perform(ctx context.Context, t *workqueue.Task[pass]) error {
	var err error
	switch t.Key {
	case fanOutPass:
		err = s.fanOut(ctx)
	case listPass:
		err = s.list(ctx)
	case sweepPass:
		err = s.sweep(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn(string(t.Key)+" failed; retrying", "error", err)
	}
	return err
}

// fanOut adds the deliveries of the next events.
func (s *Service) fanOut(ctx context.Context) error {
	generation := s.applied.changes()
	var changes []Change
	var ends []string
	isActive, more, err := s.store.FanOut(ctx, batchSize, func(ctx context.Context, events []activity.Event) (_ []Change, err error) {
		changes, ends, err = s.match(ctx, events)
		if len(changes) > 0 {
			flow.Failpoint("delivery", "add", "before")
		}
		return changes, err
	})
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		flow.Failpoint("delivery", "add", "after")
		s.passes.AddAfter(sweepPass, sweepDelay)
	}
	if !isActive {
		s.setInactive(generation)
	}
	for _, c := range changes {
		s.keys.AddAfter(c.key(), c.Debounce)
	}
	s.wakeFillers(ends)
	if more {
		s.passes.Add(fanOutPass)
	}
	return nil
}

// key returns the key of the deliveries that a change concerns.
func (c Change) key() Key {
	if c.Flush != (Key{}) {
		return c.Flush
	}
	return c.Add.Key()
}

// isRelevant reports whether this server leads and a workload may have event
// hooks.
func (s *Service) isRelevant() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isActive && s.leads
}

func (s *Service) setActive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isActive = true
}

// setInactive records that no workload has event hooks, unless one was applied
// since the given generation: setActive is called after that has changed.
func (s *Service) setInactive(generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied.changes() == generation {
		s.isActive = false
	}
}

// list adds the keys of all deliveries that have not ended.
func (s *Service) list(ctx context.Context) error {
	keys, err := s.store.DeliveryKeys(ctx)
	for _, k := range keys {
		s.keys.Add(k)
	}
	return err
}

// sweep discards the deliveries that have waited too long, and those of tenants'
// events that a full queue cannot hold. It has the next one discarded when it has waited
// too long.
func (s *Service) sweep(ctx context.Context) error {
	for {
		excess, err := s.store.ExcessDeliveries(ctx, time.Now().Add(-maxAge), maxPerWorkload, maxPerTenant, batchSize)
		if err != nil {
			return err
		}
		for _, d := range excess {
			reason := "the queue of the workload, or of the tenant, is full"
			if time.Since(d.CreatedAt) >= maxAge {
				reason = "it has waited for " + maxAge.String()
			}
			if err := s.discard(ctx, d, reason, nil); err != nil && !errors.Is(err, ErrConflict) {
				return err
			}
			s.keys.Add(d.Key())
		}
		if len(excess) < batchSize {
			return s.scheduleSweep(ctx)
		}
	}
}

// scheduleSweep has the oldest delivery discarded in time.
func (s *Service) scheduleSweep(ctx context.Context) error {
	status, err := s.store.DeliveryStatus(ctx)
	if err == nil && !status.Oldest.IsZero() {
		s.passes.AddAfter(sweepPass, max(sweepDelay, time.Until(status.Oldest.Add(maxAge))))
	}
	return err
}

// wakeFillers has the pools of workloads checked that may be ready to be deleted.
func (s *Service) wakeFillers(workloads []string) {
	for _, id := range workloads {
		if s.o.WakeFiller != nil {
			s.o.WakeFiller(id)
		}
	}
}

// EventHandlers returns what the service does on events of any server. Commands
// for an event end when the next flow of their container begins.
func (s *Service) EventHandlers() dispatch.Subscription {
	on := map[activity.Type]func(activity.Event){}
	for _, t := range activity.Types() {
		on[t] = func(activity.Event) {} // each is a reason to add deliveries, in Flush
	}
	changed := func(e activity.Event) { s.applied.invalidate(e.Workload); s.setActive() }
	on[activity.WorkloadApplied], on[activity.WorkloadDeleted], on[activity.PoolDrained] = changed, changed, changed
	on[activity.DeliveryReplayed] = func(activity.Event) { s.passes.Add(listPass); s.passes.AddAfter(sweepPass, sweepDelay) }
	on[activity.DeliveryRetried], on[activity.DeliveryDiscarded] = s.queueChanged, s.queueChanged
	on[activity.ContainerClaimed] = func(e activity.Event) {
		s.cancelCommands(func(c *command) bool { return c.container == e.Container && c.claim != e.Claim })
	}
	for _, t := range []activity.Type{activity.ContainerDestroying, activity.ContainerForced} {
		on[t] = func(e activity.Event) {
			s.cancelCommands(func(c *command) bool { return c.container == e.Container })
		}
	}
	for _, t := range []activity.Type{activity.ClaimReleasing, activity.ClaimFailed, activity.ClaimReleased} {
		on[t] = func(e activity.Event) {
			s.cancelCommands(func(c *command) bool { return c.claim != "" && c.claim == e.Claim })
		}
	}
	return dispatch.Subscription{
		Name: "deliveries", On: on,
		Flush: func() {
			if s.isRelevant() {
				s.passes.AddAfter(fanOutPass, fanOutDelay)
			}
		},
		Resync: func(context.Context) error {
			s.applied.invalidateAll()
			s.setActive()
			for _, p := range []pass{fanOutPass, listPass, sweepPass} {
				s.passes.Add(p)
			}
			return nil
		},
	}
}

// queueChanged has the key of a delivery looked at that an operator has changed,
// perhaps on another server. Another leader has the keys listed when it begins.
func (s *Service) queueChanged(e activity.Event) {
	s.mu.Lock()
	leads := s.leads
	s.mu.Unlock()
	if !leads {
		return
	}
	var data activity.DeliveryData
	if err := json.Unmarshal(e.Data, &data); err != nil {
		s.passes.Add(listPass)
		return
	}
	s.keys.Add(Key{e.Workload, data.Hook, laneOf(e)})
	s.passes.AddAfter(sweepPass, sweepDelay)
}

// cancelCommands ends the commands for an event that match.
func (s *Service) cancelCommands(matches func(*command) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if matches(c) {
			c.cancel(ErrClaimEnded)
		}
	}
}
