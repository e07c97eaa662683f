package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
)

// stages are the moments of an attempt of a command at which a test holds it.
var stages = []string{"before start", "after start", "exec", "running", "before end", "after end"}

// holder holds the first attempt that reaches a stage until the test frees it.
type holder struct {
	stage string
	held  chan struct{} // closed when an attempt is held
	free  chan struct{}

	mu   sync.Mutex // guards once
	once bool
}

func (h *holder) at(stage string) {
	h.mu.Lock()
	isHeld := stage == h.stage && !h.once
	h.once = h.once || isHeld
	h.mu.Unlock()
	if isHeld {
		close(h.held)
		<-h.free
	}
}

// holdingStore holds attempts before and after they are recorded.
type holdingStore struct {
	*store.DB
	h *holder
}

func (s holdingStore) UpdateDelivery(ctx context.Context, t delivery.Transition) (delivery.Permission, error) {
	name := "end"
	if t.Run != nil && t.Run.State == hooks.Running {
		name = "start"
	}
	s.h.at("before " + name)
	p, err := s.DB.UpdateDelivery(ctx, t)
	s.h.at("after " + name)
	return p, err
}

// tenancy is a pool whose event hook runs the program mark, which checks who has
// the container.
type tenancy struct {
	*flowtest.Harness
	holder *holder

	mu     sync.Mutex // guards strays
	strays []string   // runs in a container of another claim
}

func newTenancy(t *testing.T, stage string) *tenancy {
	v := &tenancy{Harness: flowtest.New(t), holder: &holder{stage: stage, held: make(chan struct{}), free: make(chan struct{})}}
	v.RT.Before("exec * mark", func(context.Context, fake.Call) error { v.holder.at("exec"); return nil })
	v.RT.AddProgram("mark", func(ctx context.Context, p *fake.Proc) int {
		v.holder.at("running")
		if ctx.Err() != nil {
			return 1 // it was killed in the meantime
		}
		k, err := v.DB.Container(context.Background(), p.Env["HOSTLER_CONTAINER"])
		if err != nil || k.State == pool.Claimed && k.Claim != p.Env["HOSTLER_CLAIM"] {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.strays = append(v.strays, fmt.Sprintf("%s of claim %q in the container of claim %q (%v)", p.Env["HOSTLER_RUN_ID"], p.Env["HOSTLER_CLAIM"], k.Claim, err))
		}
		return 0
	})
	return v
}

// serve runs a service of deliveries until the returned function is called.
func (v *tenancy) serve() (stop func()) {
	s := serviceOn(v.Harness, holdingStore{v.DB, v.holder}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	d := dispatch.New(v.DB, slog.New(slog.DiscardHandler), s.EventHandlers())
	var g errgroup.Group
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return s.Run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(v.T, g.Wait())
	})
}

const markWorkload = `
id: w
image: fake/image
command: [sleep, 1000h]
pool: { min_idle: 1, max_size: 3, reuse: REUSE }
hooks:
  events:
    - { name: e, on: [EVENT], command: [mark], timeout: 2m, grace: 0s }
`

// A command of an event hook never runs in the container of another claim: not
// if a release, and a claim of another tenant, come between any two steps of its
// attempt; nor if the hook is removed by then, nor if another server has taken
// over and the command arrives late.
func TestCommandRunsInNoOtherClaim(t *testing.T) {
	for _, event := range []string{"claim.activated", "container.created"} {
		for _, reuse := range []string{"wipe", "same_tenant", "never"} {
			for _, stage := range stages {
				for _, how := range []string{"", "removed", "taken over", "destroyed"} {
					if how == "destroyed" && event == "container.created" || how != "" && reuse != "wipe" {
						continue
					}
					t.Run(strings.Join([]string{event, reuse, stage, how}, "/"), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { claimDuringAttempt(t, event, reuse, stage, how) })
					})
				}
			}
		}
	}
}

func claimDuringAttempt(t *testing.T, event, reuse, stage, how string) {
	v := newTenancy(t, stage)
	stop := v.serve()
	defer stop()
	file := strings.NewReplacer("REUSE", reuse, "EVENT", event).Replace(markWorkload)
	v.Apply(file)
	if event == "container.created" {
		<-v.holder.held
	}
	v.AwaitIdle("w", 1)
	if event == "claim.activated" {
		ann := v.Claim("w", "ann")
		<-v.holder.held
		v.interfere(file, how)
		if how == "destroyed" {
			require.NoError(t, v.Pools.Manager.DestroyContainer(t.Context(), ann.Container, true))
		}
		v.Release(ann)
	} else {
		v.interfere(file, how)
	}
	bob := v.Claim("w", "bob")
	close(v.holder.free)
	<-time.After(time.Minute)
	synctest.Wait()
	v.Release(bob)
	v.Release(v.Claim("w", "eve"))
	<-time.After(5 * time.Minute)
	synctest.Wait()
	require.Empty(t, v.strays)
	for _, d := range deliveriesOf(t, v.Harness) {
		require.False(t, d.State.IsLive(), "%+v", d)
	}
}

// interfere does what comes first.
func (v *tenancy) interfere(file, how string) {
	switch how {
	case "removed":
		v.Apply(file[:strings.Index(file, "hooks:")])
	case "taken over":
		stop := v.serve() // the first service is stalled
		v.T.Cleanup(stop)
		<-time.After(10 * time.Second)
		synctest.Wait()
	}
}
