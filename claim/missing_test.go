package claim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
)

// The error of a call about what there is not begins with the cause, and names it
// once.
func TestErrorsOfMissingRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		second := func(_ any, err error) error { return err }
		for call, test := range map[string]struct {
			do   func(context.Context) error
			want string
		}{
			"status": {func(ctx context.Context) error { return second(h.Pools.Status(ctx, "nope")) }, `no such workload: "nope"`},
			"drain":  {func(ctx context.Context) error { return second(h.Pools.Drain(ctx, "nope")) }, `no such workload: "nope"`},
			"scale": {func(ctx context.Context) error {
				return second(h.Pools.Scale(ctx, "nope", pool.Scale{MinIdle: new(1)}))
			}, `no such workload: "nope"`},
			"delete": {func(ctx context.Context) error { return h.Pools.Delete(ctx, "nope") }, `no such workload: "nope"`},
			"claim": {func(ctx context.Context) error {
				_, _, err := h.Claims.Claim(ctx, claim.Request{Workload: "nope", Tenant: "ada"})
				return err
			}, `no such workload: "nope"`},
			"snapshots": {func(ctx context.Context) error { return second(h.Claims.Snapshots(ctx, "nope", "ada")) }, `no such workload: "nope"`},
			"container": {func(ctx context.Context) error { return second(h.Pools.Container(ctx, "nope")) }, `no such container: "nope"`},
			"logs":      {func(ctx context.Context) error { return second(h.Pools.Logs(ctx, "nope", 1)) }, `no such container: "nope"`},
			"destroy":   {func(ctx context.Context) error { return h.Pools.DestroyContainer(ctx, "nope", false) }, `no such container: "nope"`},
			"sync": {func(ctx context.Context) error {
				_, _, err := h.Claims.Sync(ctx, "nope")
				return err
			}, `no such claim: "nope"`},
			"extend":   {func(ctx context.Context) error { return second(h.Claims.Extend(ctx, "nope", time.Hour)) }, `no such claim: "nope"`},
			"release":  {func(ctx context.Context) error { return second(h.Releases.Release(ctx, "nope", release.Request{})) }, `no such claim: "nope"`},
			"delivery": {func(ctx context.Context) error { return second(h.DB.Delivery(ctx, "nope")) }, `no such delivery: "nope"`},
			"wait": {func(ctx context.Context) error {
				_, _, err := h.DB.Wait(ctx, "nope")
				return err
			}, `no such wait: "nope"`},
		} {
			require.EqualError(t, test.do(t.Context()), test.want, call)
		}
	})
}
