package inside

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// reopens is how often a lost session is opened again. A session that was open
// for stableAfter begins again at the minimum: a container that ends each session
// at once costs its server little.
var reopens = backoff.Policy{Min: 200 * time.Millisecond, Max: time.Minute, Jitter: 0.3}

const (
	stableAfter = time.Minute
	// startInterval is the time between two of the sessions that a server opens
	// when it starts, or has adopted claims: each may cost an engine an exec.
	startInterval = 10 * time.Millisecond
	// adoptInterval is how often the leader looks for claims whose server is gone.
	adoptInterval = 5 * time.Second
	// maxEnded bounds how many of the claims that have ended are remembered, twice.
	maxEnded = 1024
)

// Store has the claims whose sessions a server keeps. Package store implements it.
type Store interface {
	// HeldClaims lists the active claims of this server: those that it has made
	// active, and those that it has adopted.
	HeldClaims(ctx context.Context) ([]claim.Held, error)
	// AdoptClaims makes this server the owner of the active claims of a server that
	// it took over from, and of those whose owner no longer uses the database. An
	// empty name means the latter only. It returns how many there were.
	AdoptClaims(ctx context.Context, replica string) (int64, error)
}

// Keeper keeps a session with the container of each active claim of this server.
type Keeper struct {
	store   Store
	rt      runtime.Requester
	handler Handling
	log     *slog.Logger
	wake    chan struct{} // holds one signal: pending has elements

	// mu guards the fields below.
	mu      sync.Mutex
	kept    map[string]*kept // by claim
	pending []*kept          // not started yet
	// ended are the claims that have ended last, and earlier those before them: a
	// claim may end after it was listed, or activated, and before it is kept.
	ended, earlier map[string]bool
}

// kept is one claim.
type kept struct {
	claim.Held
	delay  time.Duration
	ctx    context.Context //nolint:containedctx // of the goroutine that keeps it
	cancel context.CancelFunc
}

// NewKeeper returns a keeper. Nothing is opened before Run.
func NewKeeper(store Store, rt runtime.Requester, log *slog.Logger) *Keeper {
	return &Keeper{store: store, rt: rt, log: log, wake: make(chan struct{}, 1), kept: make(map[string]*kept)}
}

// Activated begins to keep the session of a claim that this server has made
// active. It does not block.
func (k *Keeper) Activated(c claim.Claim) {
	k.keep(claim.Held{Claim: c.ID, Container: c.Container, Fence: c.ContainerFence}, 0)
}

// EventHandlers returns what the keeper does on events of any server.
func (k *Keeper) EventHandlers() dispatch.Subscription {
	end := func(e activity.Event) { k.end(e.Claim) }
	return dispatch.Subscription{
		Name:   "sessions",
		On:     map[activity.Type]func(activity.Event){activity.ClaimReleasing: end, activity.ClaimReleased: end},
		Resync: k.resync,
	}
}

// Handling answers the requests of containers. It is a Service.
type Handling interface {
	Handle(ctx context.Context, container string, r runtime.Request, respond func(runtime.Response))
	// Forget is called when a claim has ended.
	Forget(claim string)
}

// Run keeps the sessions until ctx ends, and returns when no request is being
// handled.
func (k *Keeper) Run(ctx context.Context, handler Handling) error {
	k.handler = handler
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // the functions return nil
	for {
		select {
		case <-ctx.Done():
			k.dropAll()
			return nil
		case <-k.wake:
		}
		for _, h := range k.takePending() {
			g.Go(func() error { k.serve(h); return nil })
		}
	}
}

// RunAdoption adopts the claims whose server is gone, until ctx ends. It is for
// the leader.
func (k *Keeper) RunAdoption(ctx context.Context) error {
	for {
		if err := k.Adopt(ctx, ""); err != nil && ctx.Err() == nil {
			k.log.Warn("adopting claims failed; retrying", "error", err)
		}
		if flow.Sleep(ctx, adoptInterval) != nil {
			return nil
		}
	}
}

// Adopt makes this server keep the sessions of a server that it has taken over
// from, and those that no server keeps. An empty name means the latter only.
func (k *Keeper) Adopt(ctx context.Context, replica string) error {
	n, err := k.store.AdoptClaims(ctx, replica)
	if err != nil || n == 0 {
		return err
	}
	return k.resync(ctx)
}

// resync makes the sessions those of the claims on record.
func (k *Keeper) resync(ctx context.Context) error {
	before := k.claims()
	held, err := k.store.HeldClaims(ctx)
	if err != nil {
		return err
	}
	for i, h := range held {
		delete(before, h.Claim)
		k.keep(h, time.Duration(i)*startInterval)
	}
	for id := range before { // those that became active since are not in it
		k.drop(id)
	}
	return nil
}

// claims returns the claims that are kept.
func (k *Keeper) claims() map[string]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[string]bool, len(k.kept))
	for id := range k.kept {
		all[id] = true
	}
	return all
}

// keep has the session of a claim opened after a delay, unless it is kept or the
// claim has ended.
func (k *Keeper) keep(h claim.Held, delay time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.kept[h.Claim]; ok || k.ended[h.Claim] || k.earlier[h.Claim] {
		return
	}
	next := &kept{Held: h, delay: delay}
	next.ctx, next.cancel = context.WithCancel(context.Background())
	k.kept[h.Claim] = next
	k.pending = append(k.pending, next)
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// end ends the session of a claim that has ended.
func (k *Keeper) end(id string) {
	k.drop(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.ended) >= maxEnded || k.ended == nil {
		k.ended, k.earlier = make(map[string]bool), k.ended
	}
	k.ended[id] = true
}

// drop ends the session of a claim.
func (k *Keeper) drop(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h, ok := k.kept[id]; ok {
		h.cancel()
		delete(k.kept, id)
	}
}

func (k *Keeper) dropAll() {
	for id := range k.claims() {
		k.drop(id)
	}
}

func (k *Keeper) takePending() []*kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.pending
	k.pending = nil
	return all
}

// serve keeps the session of one claim until that is dropped.
func (k *Keeper) serve(h *kept) {
	defer k.handler.Forget(h.Claim)
	if flow.Sleep(h.ctx, h.delay) != nil {
		return
	}
	handle := func(ctx context.Context, r runtime.Request, respond func(runtime.Response)) {
		k.handler.Handle(ctx, h.Container, r, respond)
	}
	for wait := reopens.Retries(); ; {
		opened := time.Now()
		err := k.rt.ServeRequests(h.ctx, h.Container, h.Fence, handle)
		if h.ctx.Err() != nil || isFinal(err) {
			return
		}
		if time.Since(opened) >= stableAfter {
			wait.Reset()
		}
		k.log.Debug("session for requests lost; retrying", "claim", h.Claim, "container", h.Container, "error", err)
		if wait.Sleep(h.ctx) != nil {
			return
		}
	}
}

// isFinal reports whether no other attempt can succeed: the container sends no
// requests, or none that this server can read, has another claim by now, or was
// destroyed by force.
func isFinal(err error) bool {
	return slices.ContainsFunc([]error{
		runtime.ErrUnsupported, runtime.ErrTooOld, runtime.ErrNewer, runtime.ErrStaleFence, runtime.ErrNotFound,
	}, func(final error) bool { return errors.Is(err, final) })
}
