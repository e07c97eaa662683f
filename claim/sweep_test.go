package claim_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/runtime/fake"
)

// outage is storage that changes nothing while it is down, and counts what is
// asked of it.
type outage struct {
	claim.Store
	down  atomic.Bool
	calls atomic.Int64
}

var errDown = errors.New("the database is away")

func (o *outage) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	if o.down.Load() {
		return claim.Claim{}, errDown
	}
	return o.Store.Reserve(ctx, r)
}

func (o *outage) MoveClaim(ctx context.Context, m claim.Move) (claim.Claim, error) {
	o.calls.Add(1)
	if o.down.Load() {
		return claim.Claim{}, errDown
	}
	return o.Store.MoveClaim(ctx, m)
}

func (o *outage) Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error) {
	o.calls.Add(1)
	if o.down.Load() {
		return nil, errDown
	}
	return o.Store.Claims(ctx, f)
}

// Claims that fail while storage is away cost no goroutine and no memory each,
// and storage one call a second. Those that were recorded end soon after it is
// back, and claims that are being made do not.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.Stopped(t)
		db := &outage{Store: y.DB}
		claims := service(y, db)
		y.Claims = claims
		y.Start()
		y.Apply(hooked)
		y.Claim("w", "ada") // the pool is there
		ctx := t.Context()
		goOn := y.RT.Before("exec", func(context.Context, fake.Call) error { db.down.Store(true); return nil })
		_, _, err := claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "recorded"})
		require.ErrorIs(t, err, errDown)
		goOn()
		synctest.Wait()

		before := goruntime.NumGoroutine()
		for i := range 3000 {
			_, _, err := claims.Claim(ctx, claim.Request{Workload: "w", Tenant: fmt.Sprint("t", i)})
			require.ErrorIs(t, err, errDown)
		}
		synctest.Wait()
		require.Less(t, goruntime.NumGoroutine(), before+10)
		calls := db.calls.Load()
		<-time.After(time.Minute)
		require.LessOrEqual(t, db.calls.Load()-calls, int64(61))
		require.Empty(t, y.Events(activity.ClaimFailed))

		db.down.Store(false)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Len(t, y.Events(activity.ClaimFailed), 1)
		require.Equal(t, "recorded", y.Events(activity.ClaimFailed)[0].Tenant)
	})
}

// A claim that is being made is left alone, for as long as that takes.
func TestSweepLeavesClaimsInTheMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(hooked)
		var g errgroup.Group
		begun, goOn := y.RT.Block("exec")
		g.Go(func() error {
			_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
			return err
		})
		<-begun
		<-time.After(25 * time.Second)
		goOn()
		require.NoError(t, g.Wait())
		require.Empty(t, y.Events(activity.ClaimFailed))
	})
}

// Pages of claims in the making by others hide none that is to be ended.
func TestSweepReadsAllPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.Stopped(t)
		db := &pages{Store: y.DB}
		y.Claims = service(y, db)
		y.Start()
		<-time.After(11 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"", "499"}, db.after)
		require.Equal(t, []string{"last"}, db.ended)
	})
}

// pages is storage with a page of another server's claims, and one of this
// one's.
type pages struct {
	claim.Store
	after, ended []string
}

func (p *pages) Claims(_ context.Context, f claim.Filter) ([]claim.Claim, error) {
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

func (p *pages) MoveClaim(_ context.Context, m claim.Move) (claim.Claim, error) {
	p.ended = append(p.ended, m.ID)
	return claim.Claim{}, nil
}
