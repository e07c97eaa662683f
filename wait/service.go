package wait

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

const (
	// slots is how many waits a server works on at once, mostly on their hooks, and
	// reservedFree how many of these only claims without another one may use.
	slots        = 1024
	reservedFree = 256
	// lateDelay is when the open waits are listed after a change whose hooks follow.
	// Storage may record it after the call that runs them has failed.
	lateDelay = 30 * time.Second
	// standbyDelay is how much later than the server that began a round the others
	// look at its deadline, so that they do not all change the same record.
	standbyDelay = 250 * time.Millisecond
	// lastReadTimeout bounds how long such a caller waits for the record after its
	// time has ended.
	lastReadTimeout = 5 * time.Second
)

// Claims reads the records of claims. store.DB implements it.
type Claims interface {
	// Claim returns a claim, or claim.ErrClaimNotFound.
	Claim(ctx context.Context, id string) (claim.Claim, error)
}

// Workloads has the workloads of containers. pool.Catalog implements it.
type Workloads interface {
	Revision(ctx context.Context, id, revision string) (*workload.Workload, pool.Record, error)
}

// Runner runs the hooks of a point. runner.Runner implements it.
type Runner interface {
	Fire(ctx context.Context, p hooks.Point, w *workload.Workload, s runner.Subject) (runner.Outcome, error)
}

// Options are what a Service needs in addition to its store.
type Options struct {
	Claims    Claims
	Workloads Workloads
	Runner    Runner
	// MaxTimeout is the greatest timeout, and the greatest extension; 0:
	// DefaultMaxTimeout.
	MaxTimeout time.Duration
	// OnEnd is called with each wait that this server has ended. nil: not.
	OnEnd func(Wait)
	Log   *slog.Logger
}

// Service begins waits, gives them their signals, and ends those that are due. It
// is safe for concurrent use.
type Service struct {
	store Store
	o     Options
	log   *slog.Logger
	lists *workqueue.Loop // of the open waits
	keys  *workqueue.Queue[Key]
	// closed is closed when no caller may wait any longer.
	closed    chan struct{}
	closeOnce sync.Once

	mu sync.Mutex // guards the fields below
	// timers are the deadlines of the waits that wait, by this machine's monotonic
	// clock: a clock that is set changes none of them.
	timers  map[string]timer
	fresh   map[string]string                  // what runs of hooks no server has begun, by wait
	cancels map[string]context.CancelCauseFunc // of waits whose hooks run
	callers map[string]map[chan struct{}]bool  // of waits that are followed
}

// timer is the deadline of a round.
type timer struct {
	round int
	at    time.Time
}

// New returns a service. It ends no waits before Run.
func New(store Store, o Options) *Service {
	if o.MaxTimeout == 0 {
		o.MaxTimeout = DefaultMaxTimeout
	}
	retries := backoff.Policy{Min: 100 * time.Millisecond, Max: 2 * time.Second, Jitter: 0.2}
	s := &Service{
		store: store, o: o, log: o.Log,
		keys: workqueue.New(workqueue.Options[Key]{
			Group: Key.group, PerGroup: MaxOpen, Reserved: reservedFree, Backoff: retries, Log: o.Log,
		}),
		closed: make(chan struct{}), timers: map[string]timer{}, fresh: map[string]string{}, cancels: map[string]context.CancelCauseFunc{},
		callers: map[string]map[chan struct{}]bool{},
	}
	s.lists = workqueue.NewLoop("listing waits", s.list, retries, o.Log)
	return s
}

// newID returns an id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// Start begins a wait of an active claim, or returns the one that the same request
// began, or the open one of its name. It does not wait for its end.
func (s *Service) Start(ctx context.Context, claimID string, r Request) (w Wait, created bool, err error) {
	if w, err = r.wait(claimID, s.o.MaxTimeout); err != nil {
		return Wait{}, false, err
	}
	c, err := s.o.Claims.Claim(ctx, claimID)
	if err != nil {
		return Wait{}, false, err
	}
	if c.State == claim.Active {
		if w.Points, err = s.pointsOf(ctx, c); err != nil {
			return Wait{}, false, err
		}
	}
	flow.Failpoint("wait", "request", "before")
	if w, created, err = s.store.StartWait(ctx, w); err != nil {
		return Wait{}, false, err // if it is on record nevertheless, that has an event
	}
	flow.Failpoint("wait", "request", "after")
	if created {
		s.changed(w)
	}
	return w, created, nil
}

// pointsOf returns the points of waits at which a claim's container may have hooks.
func (s *Service) pointsOf(ctx context.Context, c claim.Claim) ([]hooks.Point, error) {
	w, _, err := s.o.Workloads.Revision(ctx, c.Workload, c.Revision)
	if err != nil {
		return nil, fmt.Errorf("read the workload of claim %s: %w", c.ID, err)
	}
	var points []hooks.Point
	for _, rule := range hooks.Points() {
		if rule.OfWait && (w.ImageHooks || len(w.Hooks[rule.Point]) > 0) {
			points = append(points, rule.Point)
		}
	}
	return points, nil
}

// Wait begins a wait as Start does, and returns when it has ended or ctx ends, with
// its record as it is then. The wait continues if ctx ends: a request with the same
// ID returns to it.
func (s *Service) Wait(ctx context.Context, claimID string, r Request) (Wait, error) {
	w, _, err := s.Start(ctx, claimID, r)
	if err != nil || !w.State.IsOpen() {
		return w, err
	}
	return s.Follow(ctx, w.ID)
}

// Close has every caller that waits return, with the record as it is then. The waits
// continue.
func (s *Service) Close() { s.closeOnce.Do(func() { close(s.closed) }) }

// isClosed reports whether Close was called.
func (s *Service) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Follow returns a wait when it has ended or ctx ends: then as it is, or as it was
// read before if the database does not answer within lastReadTimeout. It fails only if
// the record cannot be read.
func (s *Service) Follow(ctx context.Context, id string) (Wait, error) {
	changed, stop := s.subscribe(id)
	defer stop()
	reading, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(lastReadTimeout, func() { cancel(errNotRead) })
	})()
	var before Wait
	for {
		w, err := s.Get(reading, id)
		if err != nil && before.ID != "" && reading.Err() != nil {
			return before, nil
		}
		if err != nil || !w.State.IsOpen() || ctx.Err() != nil || s.isClosed() {
			return w, err
		}
		before = w
		select {
		case <-ctx.Done():
		case <-s.closed:
		case <-changed:
		}
	}
}

// errNotRead indicates that the database did not answer.
var errNotRead = errors.New("the record of the wait was not read in time")

// Get returns a wait.
func (s *Service) Get(ctx context.Context, id string) (Wait, error) {
	w, _, err := s.store.Wait(ctx, id)
	return w, err
}

// List lists the matching waits.
func (s *Service) List(ctx context.Context, f Filter) ([]Wait, error) { return s.store.Waits(ctx, f) }

// SignalResult is what became of a signal.
type SignalResult struct {
	Wait string `json:"wait,omitempty" doc:"The wait that got it; omitted if it is kept for the next one of its name."`
	Kept int    `json:"kept,omitempty" doc:"How many signals are kept for the name, with this one."`
}

// Signal gives data to the open wait of a name of an active claim. If none waits
// now, it is kept for the next one, until the claim ends.
func (s *Service) Signal(ctx context.Context, claimID, name string, data json.RawMessage) (SignalResult, error) {
	sig, err := signal(claimID, name, data)
	if err != nil {
		return SignalResult{}, err
	}
	flow.Failpoint("wait", "signal", "before")
	w, kept, err := s.store.SendSignal(ctx, sig)
	if err != nil {
		return SignalResult{}, err
	}
	flow.Failpoint("wait", "signal", "after")
	if w == nil {
		return SignalResult{Kept: kept}, nil
	}
	s.changed(*w)
	return SignalResult{Wait: w.ID}, nil
}

// Run works on the open waits until ctx ends, and returns when no hook that it
// began runs. Every server runs it.
func (s *Service) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return s.lists.Run(ctx) })
	g.Go(func() error { s.keys.Run(ctx, slots, s.progress); return nil })
	return g.Wait()
}

// list has every open wait worked on when it is due, and ends the hooks of those that
// are not open any more. What follows has events.
func (s *Service) list(ctx context.Context) (never time.Time, err error) {
	ended := s.runningHooks()
	open, err := s.store.OpenWaits(ctx)
	if err != nil {
		return never, err
	}
	for _, o := range open {
		delete(ended, o.ID)
	}
	for _, cancel := range ended {
		cancel(errCancelled)
	}
	for _, o := range open {
		switch {
		case o.State == Waiting && o.IsOwn:
			s.addTimer(o.Key, o.Round, o.TimeLeft)
		case o.State == Waiting:
			s.addTimer(o.Key, o.Round, o.TimeLeft+standbyDelay)
		case o.IsOwn:
			s.keys.Add(o.Key)
		}
	}
	return never, nil
}

// TakeOver makes this server the owner of the waits with these ids, whose owner has
// terminated while their hooks ran.
func (s *Service) TakeOver(ctx context.Context, ids []string) error {
	if len(ids) > 0 {
		defer s.lists.Wake() // also after an error: some may be this server's now
	}
	for _, id := range ids {
		if err := s.store.AdoptWait(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// EventHandlers returns what the service does on events of any server.
func (s *Service) EventHandlers() dispatch.Subscription {
	on := map[activity.Type]func(activity.Event){}
	for _, row := range transitions {
		on[row.Event] = s.onEvent
	}
	return dispatch.Subscription{
		Name: "waits", On: on,
		Resync: func(context.Context) error {
			s.lists.Wake()
			s.wakeAll()
			return nil
		},
	}
}

// onEvent wakes the callers of a wait, sets its timer, and ends its hooks.
func (s *Service) onEvent(e activity.Event) {
	var data activity.WaitData
	if json.Unmarshal(e.Data, &data) != nil { // it is not of this version
		s.lists.Wake()
		return
	}
	k := Key{Claim: e.Claim, ID: data.Wait}
	switch e.Type {
	case activity.WaitStarted, activity.WaitExtended:
		s.setTimer(k, data.Round, time.Duration(data.TimeoutMS)*time.Millisecond+standbyDelay)
	case activity.WaitRequested, activity.WaitSignalReceived, activity.WaitExpired:
		s.lists.WakeAfter(lateDelay)
	case activity.WaitCancelled:
		s.cancelHooks(k)
		s.ended(k)
	case activity.WaitSignalled, activity.WaitTimedOut, activity.WaitAborted:
		s.ended(k)
	}
}

// errCancelled is why the hooks of a wait are ended.
var errCancelled = errors.New("the claim of the wait has ended")
