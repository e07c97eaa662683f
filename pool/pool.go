package pool

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Pools is all pools of a server: the loops that manage them, and what claims
// and releases need from them.
type Pools struct {
	*Manager
	Catalog *Catalog
	Queue   *WaitQueue
	Health  *HealthChecker
	Engine  *Engine
	filler  *Filler
	reaper  *Reaper
	watcher *Watcher
	outputs *outputReader
	runner  *runner.Runner
	store   Store
	log     *slog.Logger
}

// New returns the pools of a server. They do nothing before Run. checkSink
// returns an error if this server cannot open the sink of a workload.
func New(store Store, rt runtime.Runtime, runner *runner.Runner, checkSink func(context.Context, *workload.Sync) error, log *slog.Logger) *Pools {
	p := &Pools{Catalog: NewCatalog(store), Queue: NewWaitQueue(), runner: runner, store: store, log: log}
	p.Health = NewHealthChecker(rt, store, p.beginLoss, log)
	p.Engine = newEngine(rt, log, p.Queue.NotifyEvery)
	p.outputs = p.Health.outputs
	provisioner := NewProvisioner(store, rt, runner, p.Health, log)
	p.reaper = NewReaper(store, p.Catalog, provisioner, log)
	p.filler = NewFiller(store, p.Catalog, provisioner, p.Queue, log)
	p.watcher = NewWatcher(store, p.outputs, p.beginLoss, log)
	p.Manager = &Manager{store: store, rt: rt, pools: p, checkSink: checkSink}
	return p
}

// Redact sets the function that replaces secrets of hooks in what is kept of the
// output of containers. It is called before Run.
func (p *Pools) Redact(redact func(string) string) { p.outputs.redact = redact }

// BeginClaim records that a claim has a container and is in progress on this
// server, until the returned function is called, for 10 s at most. Until then
// containers that no claim waits for are created later: a pool creates one after
// 250 ms if it has no usable container, and after up to 2 s if it has some.
func (p *Pools) BeginClaim() (end func()) { return p.filler.yielder.begin() }

// Wake requests a check of the workload's pool because it has changed. Changes
// that have an event do so by EventHandlers.
func (p *Pools) Wake(workload string) {
	p.filler.Wake(workload)
	p.reaper.Wake()
	p.Queue.NotifyFirst(workload)
}

// beginLoss is called before a container is recorded as exited or unhealthy. The
// returned function is called afterwards, with the previous record and the
// reason, or with nil if nothing was recorded.
func (p *Pools) beginLoss(c Container) (end func(*Container)) {
	release := p.filler.hold(c, nil)
	p.Health.Distrust(c.ID)
	return func(lost *Container) {
		if lost != nil {
			p.filler.recordEarlyExit(context.Background(), *lost)
		}
		release()
		p.filler.Wake(c.Workload) // the events may have come before
	}
}

// WakeFiller requests a check of the workload's pool by the Filler only.
func (p *Pools) WakeFiller(workload string) { p.filler.Wake(workload) }

// RecordWiped records that a claimed container was wiped: it has no data of an
// earlier tenant, and no outdated state of its own tenant. From then on it
// belongs to the tenant of its claim.
func (p *Pools) RecordWiped(ctx context.Context, id, tenant string) (Container, error) {
	now := time.Now().UTC()
	return p.store.UpdateContainer(ctx, Note(id, Claimed,
		func(c *Container) { c.Tenant, c.Snapshot, c.WipedAt = tenant, "", &now },
		activity.Event{Type: activity.ContainerWiped, Tenant: tenant, Message: "container wiped and verified"},
	))
}

// RecordUpdating records that a claimed container holds no snapshot, because its
// files are being replaced by those of another one.
func (p *Pools) RecordUpdating(ctx context.Context, id string) (Container, error) {
	return p.store.UpdateContainer(ctx, Note(id, Claimed, func(c *Container) { c.Snapshot = "" }))
}

// Recover destroys those of the containers with these ids that an earlier
// server was creating, because their state is unknown. Containers that it was
// destroying are destroyed by the reaper. The runner then knows whose hooks are
// ended by force: the flows that continue them ask for how they have ended.
func (p *Pools) Recover(ctx context.Context, ids []string) error {
	for _, id := range ids {
		_, err := p.store.UpdateContainer(ctx, BeginDestroy(id, []State{Creating}, "the server stopped while it was being created"))
		if err != nil && !isConflict(err) {
			return fmt.Errorf("begin to destroy container %s: %w", id, err)
		}
	}
	if err := p.endForced(ctx); err != nil {
		return fmt.Errorf("list the containers that are destroyed by force: %w", err)
	}
	return nil
}

// watchExisting starts to watch the existing containers.
func (p *Pools) watchExisting(ctx context.Context) error {
	existing, err := p.store.Containers(ctx, ContainerFilter{States: []State{Idle, Claimed}})
	if err != nil {
		return fmt.Errorf("list the containers: %w", err)
	}
	for _, c := range existing {
		w, _, err := p.Catalog.Revision(ctx, c.Workload, c.Revision)
		if err != nil {
			// The container still runs but cannot be claimed; one invalid record
			// must not keep the server from starting.
			p.log.Error("reading workload of container failed", "container", c.ID, "error", err)
			continue
		}
		p.Health.Watch(c.ID, w, time.Time{})
	}
	return nil
}

// Run manages the pools until ctx ends. Containers and claims continue to exist
// when it returns.
func (p *Pools) Run(ctx context.Context) error {
	retryRead(ctx, p.log, p.watchExisting)
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		p.watcher.Run, p.reaper.Run, p.filler.Run, p.Health.Run,
	} {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}
