package release_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
)

// dueRig has claims that end at due times.
type dueRig struct {
	*flowtest.Harness
	t *testing.T
}

// requireEnd checks that a claim ends within a second of a time.
func (r dueRig) requireEnd(c claim.Claim, at time.Time) {
	r.t.Helper()
	<-time.After(time.Until(at) - time.Millisecond)
	synctest.Wait()
	require.Equal(r.t, claim.Active, currentClaim(r.Harness, c).State, "before its time")
	<-time.After(time.Second)
	synctest.Wait()
	require.Equal(r.t, claim.Released, currentClaim(r.Harness, c).State, "a second after its time")
}

// claimFor claims with a lifetime.
func (r dueRig) claimFor(tenant string, lifetime time.Duration) claim.Claim {
	r.t.Helper()
	c, _, err := r.Claims.Claim(r.t.Context(), claim.Request{Workload: "w", Tenant: tenant, ExpiresIn: lifetime})
	require.NoError(r.t, err)
	return c
}

// A claim ends within a second of the end of its lifetime, or of its idle time: also
// if it begins later than one that ends later, if a later change has it end earlier, and
// after a restart.
func TestClaimsEndWithinASecond(t *testing.T) {
	source := flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 10")
	withTTL := func(ttl string) string {
		return flowtest.Edit(source, "reuse: wipe", "reuse: wipe, claim_idle_ttl: "+ttl)
	}
	for name, test := range map[string]func(r dueRig){
		"lifetime": func(r dueRig) {
			startLoops(r.t, r.Harness)
			later := r.claimFor("later", 3*time.Hour)
			<-time.After(time.Minute)
			for tenant, lifetime := range map[string]time.Duration{"a": time.Second, "b": 10 * time.Second, "c": time.Hour} {
				c := r.claimFor(tenant, lifetime)
				r.requireEnd(c, *c.ExpiresAt)
			}
			r.requireEnd(later, *later.ExpiresAt)
		},
		"extended": func(r dueRig) {
			startLoops(r.t, r.Harness)
			c := r.claimFor("ada", time.Minute)
			<-time.After(59 * time.Second)
			c, err := r.Claims.Extend(r.t.Context(), c.ID, time.Hour)
			require.NoError(r.t, err)
			r.requireEnd(c, *c.ExpiresAt)
		},
		"restart": func(r dueRig) {
			c := r.claimFor("ada", time.Hour)
			<-time.After(time.Minute)
			r.Restart()
			startLoops(r.t, r.Harness)
			r.requireEnd(c, *c.ExpiresAt)
		},
		"idle": func(r dueRig) {
			r.Apply(withTTL("10m"))
			startLoops(r.t, r.Harness)
			for range 3 {
				c := r.Claim("w", "ada")
				<-time.After(7 * time.Minute)
				c, err := r.Claims.Touch(r.t.Context(), c.ID)
				require.NoError(r.t, err)
				r.requireEnd(c, c.LastActive().Add(10*time.Minute))
			}
		},
		"idle for seconds": func(r dueRig) {
			r.Apply(withTTL("5s"))
			startLoops(r.t, r.Harness)
			<-time.After(time.Hour)
			c := r.Claim("w", "ada")
			r.requireEnd(c, c.LastActive().Add(5*time.Second))
		},
		"idle, applied later": func(r dueRig) {
			startLoops(r.t, r.Harness)
			c := r.Claim("w", "ada")
			<-time.After(5 * time.Minute)
			r.Apply(withTTL("10h"))
			<-time.After(5 * time.Minute)
			r.Apply(withTTL("20m"))
			r.requireEnd(c, c.LastActive().Add(20*time.Minute))
		},
		"idle, restart": func(r dueRig) {
			r.Apply(withTTL("10m"))
			c := r.Claim("w", "ada")
			<-time.After(time.Minute)
			r.Restart()
			startLoops(r.t, r.Harness)
			r.requireEnd(c, c.LastActive().Add(10*time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(source)
				test(dueRig{h, t})
			})
		})
	}
}

// A failed release is retried within a second of its time.
func TestRetryWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		startLoops(t, h)
		c := h.Claim("w", "ada")
		h.Bucket.FailAfter(0)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		for failures := 2; failures < 8; failures++ {
			at := currentClaim(h, c).RetryAt
			require.NotNil(t, at)
			<-time.After(time.Until(*at) - time.Millisecond)
			synctest.Wait()
			require.Equal(t, failures-1, currentClaim(h, c).Failures)
			<-time.After(time.Second)
			synctest.Wait()
			require.Equal(t, failures, currentClaim(h, c).Failures)
		}
	})
}
