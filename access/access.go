// Package access lets tenants use the containers of their claims: it runs their
// commands, reads and writes their files, and connects to their ports.
//
// It promises that a container is used only for the active claim that has it: a use
// carries the fence of its claim, which the container refuses once the release has
// begun. A use counts as activity of the tenant. Who may use a claim is for its
// callers to decide.
package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Claims has the claims. It is a claim.Service with its store.
type Claims interface {
	// Claim returns one record, or claim.ErrClaimNotFound.
	Claim(ctx context.Context, id string) (claim.Claim, error)
	// Touch records that a claim is still in use.
	Touch(ctx context.Context, id string) (claim.Claim, error)
}

// Workloads has the workloads as they are applied now. It is a pool.Catalog.
type Workloads interface {
	Current(ctx context.Context, id string) (*workload.Workload, pool.Record, error)
}

// Runtime is what is used of a container.
type Runtime interface {
	runtime.Commander
	runtime.TenantFiles
	runtime.Ports
}

// Options are what a Service is made of.
type Options struct {
	Claims    Claims
	Workloads Workloads
	Runtime   Runtime
	Gates     Gates // nil: everything is permitted
	Uses      Uses  // nil: nothing is recorded
	Log       *slog.Logger
}

// Service is how tenants use their containers.
type Service struct {
	o Options
	// commandCalls bounds the uses of commands, transfers and fileCalls those of
	// files, connections and requests those of ports.
	commandCalls, transfers, fileCalls, connections, requests *slots
}

// New returns a Service.
func New(o Options) *Service {
	if o.Gates == nil {
		o.Gates = openGates{}
	}
	if o.Uses == nil {
		o.Uses = noUses{}
	}
	return &Service{
		o:            o,
		commandCalls: newSlots(ErrTooManyCalls, maxCommandCalls),
		transfers:    newSlots(ErrTooManyTransfers, maxTransfers),
		fileCalls:    newSlots(ErrTooManyTransfers, maxFileCalls),
		connections:  newSlots(runtime.ErrTooManyConnections, maxPorts),
		requests:     newSlots(runtime.ErrTooManyConnections, maxPorts),
	}
}

// Grant permits one use of a claim's container.
type Grant struct {
	Claim claim.Claim
	// Workload is the one as applied now, nil if it was deleted.
	Workload *workload.Workload
	Actor    activity.Actor // who uses the claim
}

// Container returns the container.
func (g Grant) Container() string { return g.Claim.Container }

// Fence returns the fence that each call for the container carries.
func (g Grant) Fence() int64 { return g.Claim.ContainerFence }

// Enter returns a Grant for an active claim, and records that it is in use. Errors:
// claim.ErrClaimNotFound, claim.ErrNotActive.
func (s *Service) Enter(ctx context.Context, id string) (Grant, error) {
	c, err := s.o.Claims.Claim(ctx, id)
	if err != nil {
		return Grant{}, err
	}
	if c.State != claim.Active {
		return Grant{}, fmt.Errorf("%w: claim %s is %s", claim.ErrNotActive, c.ID, c.State)
	}
	g := Grant{Claim: c, Actor: activity.ActorOf(ctx)}
	g.Workload, _, err = s.o.Workloads.Current(ctx, c.Workload)
	if err != nil && !errors.Is(err, pool.ErrWorkloadNotFound) {
		return Grant{}, err
	}
	s.touch(ctx, g)
	return g, nil
}

// maxTouchInterval bounds the time between two records of activity of a claim that
// is in use all the time.
const maxTouchInterval = 15 * time.Second

// touchInterval returns how often the activity of a claim is recorded: often enough
// that it does not become idle, and 0 for one that never does.
func (g Grant) touchInterval() time.Duration {
	if g.Workload == nil || g.Workload.Pool.ClaimIdleTTL <= 0 {
		return 0
	}
	return min(maxTouchInterval, g.Workload.Pool.ClaimIdleTTL/4)
}

// touch records activity, unless it was recorded a moment ago.
func (s *Service) touch(ctx context.Context, g Grant) {
	interval := g.touchInterval()
	if interval == 0 || time.Since(g.Claim.LastActive()) < interval {
		return
	}
	if _, err := s.o.Claims.Touch(ctx, g.Claim.ID); err != nil && ctx.Err() == nil {
		s.o.Log.Debug("recording activity failed", "claim", g.Claim.ID, "error", err)
	}
}

// Hold keeps a claim from being idle until the returned function is called: it is
// for a use that takes long.
func (s *Service) Hold(ctx context.Context, g Grant) (end func()) {
	interval := g.touchInterval()
	if interval == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &hold{}
	h.timer = time.AfterFunc(interval, func() {
		s.touch(ctx, g)
		h.repeat(interval)
	})
	return func() { cancel(); h.end() }
}

// hold is a use that takes long.
type hold struct {
	timer *time.Timer

	mu    sync.Mutex // guards ended
	ended bool
}

// repeat starts the timer again.
func (h *hold) repeat(interval time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.timer.Reset(interval)
	}
}

func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.timer.Stop()
}

// asUsed returns the error of a use. A container with a greater fence has another
// flow: the claim is being released.
func asUsed(err error) error {
	if errors.Is(err, runtime.ErrStaleFence) {
		return fmt.Errorf("%w: %w", claim.ErrNotActive, err)
	}
	return err
}
