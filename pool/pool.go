package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// Pools is all the pools of a server: the loops that keep them, and what
// claims and releases need of them.
type Pools struct {
	*Manager
	Catalog *Catalog
	Queue   *WaitQueue
	Health  *HealthChecker
	filler  *Filler
	reaper  *Reaper
	watcher *Watcher
	store   Store
	log     *slog.Logger
	leading atomic.Bool // while Run runs
}

// New wires the pools. Nothing happens before Run.
func New(store Store, rt runtime.Runtime, runner *hooks.Runner, log *slog.Logger) *Pools {
	p := &Pools{Catalog: NewCatalog(store), Queue: NewWaitQueue(), store: store, log: log}
	p.Health = NewHealthChecker(rt, store, p.onContainerLost, log)
	provisioner := NewProvisioner(store, rt, runner, p.Health, log)
	p.reaper = NewReaper(store, p.Catalog, provisioner, p.Wake, log)
	p.filler = NewFiller(store, p.Catalog, provisioner, p.reaper, p.Queue, log)
	p.watcher = NewWatcher(store, rt, p.onContainerLost, log)
	p.Manager = &Manager{store: store, rt: rt, pools: p}
	return p
}

// Wake has the workload's pool looked at: something in it has changed.
func (p *Pools) Wake(workload string) {
	p.filler.Wake(workload)
	p.reaper.Wake()
	p.Queue.NotifyFirst(workload)
}

// onContainerLost has what follows done when a container has died or fallen ill; c is its
// record before, with the reason.
func (p *Pools) onContainerLost(c Container) {
	p.filler.recordEarlyExit(context.Background(), c)
	p.Wake(c.Workload)
}

// ApplyFillEvent notes what the server that keeps the pools says of how filling one
// goes, from its events PoolWarning and PoolRecovered. While this server is the
// one, it knows better.
func (p *Pools) ApplyFillEvent(e activity.Event) {
	if p.leading.Load() {
		return
	}
	var data struct {
		Failures int       `json:"failures"`
		NextTry  time.Time `json:"next_try"`
		Revision string    `json:"revision"`
	}
	if e.Type == activity.PoolWarning && (json.Unmarshal(e.Data, &data) != nil || data.Failures == 0) {
		return // a warning about something else
	}
	p.filler.breakers.apply(e.Workload, breaker{
		revision: data.Revision, failures: data.Failures, retryAt: data.NextTry, lastError: e.Message, lastErrorAt: e.Time,
	})
	p.Queue.NotifyAll(e.Workload)
}

// WakeFiller has the fill loop look at the workload's pool, and nobody else.
func (p *Pools) WakeFiller(workload string) { p.filler.Wake(workload) }

// BeginDestroy makes a move to Destroying. A container that is no longer where the
// move expects it is left as it is.
func (p *Pools) BeginDestroy(ctx context.Context, m Transition) error {
	if _, err := p.store.UpdateContainer(ctx, m); err != nil && !isConflict(err) {
		return err
	}
	p.reaper.Wake()
	return nil
}

// RecordWiped records that nothing of what a claimed container held is left in it:
// neither of an earlier tenant, nor a state that its own has moved on from. From
// then on it is the tenant's of its claim.
func (p *Pools) RecordWiped(ctx context.Context, id, tenant string) (Container, error) {
	now := time.Now().UTC()
	return p.store.UpdateContainer(ctx, Transition{
		ID: id, From: []State{Claimed}, To: Claimed,
		Set: func(c *Container) { c.Tenant, c.Snapshot, c.WipedAt = tenant, "", &now },
		Events: []activity.Event{{
			Type: activity.ContainerWiped, Message: "container is proven to hold nothing of its last tenant",
		}},
	})
}

// Recover gives up those of the containers with these ids that a server which
// is no more was making: nobody knows how far it got. What it was destroying is
// destroyed by whoever runs.
func (p *Pools) Recover(ctx context.Context, ids []string) error {
	for _, id := range ids {
		_, err := p.store.UpdateContainer(ctx, BeginDestroy(id, []State{Creating}, "the server stopped while it was being made"))
		if err != nil && !isConflict(err) {
			return fmt.Errorf("give up container %s: %w", id, err)
		}
	}
	p.reaper.Wake()
	return nil
}

// watchExisting has the containers that there are looked after.
func (p *Pools) watchExisting(ctx context.Context) error {
	existing, err := p.store.Containers(ctx, ContainerFilter{States: []State{Idle, Claimed}})
	if err != nil {
		return fmt.Errorf("list the containers: %w", err)
	}
	for _, c := range existing {
		w, _, err := p.Catalog.Revision(ctx, c.Workload, c.Revision)
		if err != nil {
			// Its container still runs, and can be claimed no more; one bad
			// record must not keep the server down.
			p.log.Error("read a container's workload", "container", c.ID, "error", err)
			continue
		}
		p.Health.Watch(c.ID, w, time.Time{})
	}
	return nil
}

// Run keeps the pools until ctx ends. Containers and claims stay as they are
// when it returns.
func (p *Pools) Run(ctx context.Context) error {
	p.leading.Store(true)
	defer p.leading.Store(false)
	if err := p.watchExisting(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		p.watcher.Run, p.reaper.Run, p.filler.Run, p.Health.Run,
	} {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}
