package claim_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/runtime/fake"
)

// outageStore is a store that fails while it is down, and counts calls.
type outageStore struct {
	claim.Store
	down  atomic.Bool
	calls atomic.Int64
}

var errStoreDown = errors.New("database unavailable")

func (o *outageStore) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	if o.down.Load() {
		return claim.Claim{}, errStoreDown
	}
	return o.Store.Reserve(ctx, r)
}

func (o *outageStore) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	o.calls.Add(1)
	if o.down.Load() {
		return claim.Claim{}, errStoreDown
	}
	return o.Store.UpdateClaim(ctx, m)
}

func (o *outageStore) Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error) {
	o.calls.Add(1)
	if o.down.Load() {
		return nil, errStoreDown
	}
	return o.Store.Claims(ctx, f)
}

// Claims that fail while storage is unavailable keep no goroutine and no memory
// each, and cause one storage call a second. Recorded ones end soon after
// storage is available again; claims in progress do not.
func TestStoreOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		db := &outageStore{Store: h.DB}
		claims := newService(h, db)
		h.Claims = claims
		h.Start()
		h.Apply(hookedWorkload)
		h.Claim("w", "ada") // the pool exists
		ctx := t.Context()
		restore := h.RT.Before("exec", func(context.Context, fake.Call) error { db.down.Store(true); return nil })
		_, _, err := claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "recorded"})
		require.ErrorIs(t, err, errStoreDown)
		restore()
		synctest.Wait()

		before, _ := goroutines()
		for i := range 3000 {
			_, _, err := claims.Claim(ctx, claim.Request{Workload: "w", Tenant: fmt.Sprint("t", i)})
			require.ErrorIs(t, err, errStoreDown)
		}
		synctest.Wait()
		after, stacks := goroutines()
		require.Less(t, after, before+10, "%s", stacks)
		calls := db.calls.Load()
		<-time.After(time.Minute)
		synctest.Wait()
		require.LessOrEqual(t, db.calls.Load()-calls, int64(61))
		require.Empty(t, h.Events(activity.ClaimFailed))

		db.down.Store(false)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Len(t, h.Events(activity.ClaimFailed), 1)
		require.Equal(t, "recorded", h.Events(activity.ClaimFailed)[0].Tenant)
	})
}

// goroutines returns how many goroutines there are, and their stacks. It does not
// use runtime.NumGoroutine, which counts hundreds that have exited while the garbage
// collector frees their stacks.
func goroutines() (n int, stacks string) {
	buf := make([]byte, 1<<20)
	for size := goruntime.Stack(buf, true); ; size = goruntime.Stack(buf, true) {
		if size < len(buf) {
			stacks = string(buf[:size])
			return strings.Count("\n"+stacks, "\ngoroutine "), stacks
		}
		buf = make([]byte, 2*len(buf))
	}
}

// The sweep does not fail a claim in progress, however long it takes.
func TestSweepSkipsClaimsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		var g errgroup.Group
		reached, unblock := h.RT.Block("exec")
		g.Go(func() error {
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
			return err
		})
		<-reached
		<-time.After(25 * time.Second)
		unblock()
		require.NoError(t, g.Wait())
		require.Empty(t, h.Events(activity.ClaimFailed))
	})
}

// A sweep reads all pages, even if the first has only other servers' claims.
func TestSweepReadsAllPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		db := &pagedStore{Store: h.DB}
		h.Claims = newService(h, db)
		h.Start()
		<-time.After(11 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"", "499"}, db.after)
		require.Equal(t, []string{"last"}, db.ended)
	})
}

// pagedStore is a store with one page of another server's claims and one of
// this server's.
type pagedStore struct {
	claim.Store
	after, ended []string
}

func (p *pagedStore) Claims(_ context.Context, f claim.Filter) ([]claim.Claim, error) {
	p.after = append(p.after, f.After)
	if f.After != "" {
		return []claim.Claim{{ID: "last", Workload: "w", State: claim.Pending, Owner: p.Self()}}, nil
	}
	list := make([]claim.Claim, f.Limit)
	for i := range list {
		list[i] = claim.Claim{ID: fmt.Sprint(i), State: claim.Pending, Owner: "another"}
	}
	return list, nil
}

func (p *pagedStore) UpdateClaim(_ context.Context, m claim.Transition) (claim.Claim, error) {
	p.ended = append(p.ended, m.ID)
	return claim.Claim{}, nil
}

// takenOverStore is a store with the claim of another server, until this one takes it
// over, whose next change fails.
type takenOverStore struct {
	claim.Store
	id    string
	isOwn atomic.Bool
	fails atomic.Bool
}

func (o *takenOverStore) owned(c claim.Claim) claim.Claim {
	if c.ID == o.id && !o.isOwn.Load() {
		c.Owner = "another server"
	}
	return c
}

func (o *takenOverStore) Claim(ctx context.Context, id string) (claim.Claim, error) {
	c, err := o.Store.Claim(ctx, id)
	return o.owned(c), err
}

func (o *takenOverStore) Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error) {
	all, err := o.Store.Claims(ctx, f)
	for i, c := range all {
		all[i] = o.owned(c)
	}
	return all, err
}

func (o *takenOverStore) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	if o.isOwn.Load() && o.fails.CompareAndSwap(true, false) {
		return claim.Claim{}, errStoreDown
	}
	o.isOwn.Store(true)
	return o.Store.UpdateClaim(ctx, m)
}

// A claim that a server has taken over, and could not end or resume, ends soon: no server
// takes it over again.
func TestFailedTakeoverIsSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		db := &takenOverStore{Store: h.DB, id: "0"}
		db.fails.Store(true)
		h.Claims = newService(h, db)
		h.Start()
		h.Apply(hookedWorkload)
		_, err := h.DB.Reserve(t.Context(), claim.Reservation{Claim: db.id, Workload: "w", Tenant: "ada", EnqueueOnly: true})
		require.ErrorIs(t, err, claim.ErrNoIdleContainer)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Empty(t, h.Events(activity.ClaimFailed), "it is another server's")
		require.ErrorIs(t, h.Claims.Recover(t.Context(), []string{db.id}), errStoreDown)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Len(t, h.Events(activity.ClaimFailed), 1)
	})
}
