package doctor_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/wait"
)

// A wait in which nothing is due any more and that does not end is a finding in each
// open state. One that waits for its deadline, or has ended, is none.
func TestStuckWait(t *testing.T) {
	expire := func(w *wait.Wait, now time.Time) []activity.Event { return w.Expire(now) }
	receive := func(w *wait.Wait, now time.Time) []activity.Event { return w.Receive(json.RawMessage(`1`), now) }
	retry := func(w *wait.Wait, now time.Time) []activity.Event {
		return append(w.Expire(now), w.Decide(wait.Outcome{Decision: wait.Retry}, now)...)
	}
	for name, test := range map[string]struct {
		points []hooks.Point
		change func(*wait.Wait, time.Time) []activity.Event // at the deadline
		want   string
	}{
		"waiting":       {nil, nil, "is waiting, which should have ended 20m0s ago"},
		"never started": {[]hooks.Point{hooks.WaitStart}, nil, "is starting, which should have ended 1h20m0s ago"},
		"signalled":     {[]hooks.Point{hooks.WaitSignal}, receive, "is signalling, which should have ended 20m0s ago"},
		"timed out":     {[]hooks.Point{hooks.WaitTimeout}, expire, "is timing_out, which should have ended 20m0s ago"},
		"retried":       {[]hooks.Point{hooks.WaitTimeout}, retry, ""},
		"ended":         {nil, expire, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.NewStopped(t)
				h.Apply(file)
				record(h, pool.Idle)
				reserve(h, false)
				_, err := h.DB.UpdateClaim(t.Context(), claim.Activate("k1", claim.Fresh, nil))
				require.NoError(t, err)
				found := func() (all []doctor.Finding) {
					for _, f := range newDoctor(h, freeSpace).Examine(t.Context()).Findings {
						if f.Check == "stuck_wait" {
							all = append(all, f)
						}
					}
					return all
				}
				w, _, err := h.DB.StartWait(t.Context(), wait.Wait{
					ID: uuid.NewString(), Claim: "k1", Type: "review", TimeoutMS: time.Hour.Milliseconds(), Points: test.points,
				})
				require.NoError(t, err)
				require.Empty(t, found())
				advance(time.Hour)
				if test.change != nil {
					_, err = h.DB.UpdateWait(t.Context(), wait.Transition{Key: w.Key(), From: w.State, Round: w.Round, Apply: test.change})
					require.NoError(t, err)
				}
				if name != "never started" {
					advance(10 * time.Minute)
					require.Empty(t, found())
					advance(10 * time.Minute)
				} else {
					advance(20 * time.Minute)
				}
				if test.want == "" {
					require.Empty(t, found())
					return
				}
				require.Len(t, found(), 1)
				f := found()[0]
				require.Contains(t, f.Message, "wait "+w.ID+" of claim k1 "+test.want)
				require.Equal(t, []string{"w", "c1", "k1", "ada"}, []string{f.Workload, f.Container, f.Claim, f.Tenant})
				require.Contains(t, f.Hint, "hostler release k1")
			})
		})
	}
}
