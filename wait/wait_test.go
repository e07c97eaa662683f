package wait_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/wait"
)

func request(name string, timeout time.Duration) wait.Request {
	return wait.Request{Name: name, Type: "review", Timeout: timeout}
}

// on runs a test on a rig with one server.
func on(t *testing.T, source string, test func(t *testing.T, r *rig, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, source)
		test(t, r, r.start())
	})
}

// without is a workload without hooks.
var without = strings.Split(file, "hooks:")[0]

// The clock of a wait starts after its wait_start hooks, and it ends at its deadline,
// not before.
func TestDeadline(t *testing.T) {
	on(t, file, func(t *testing.T, r *rig, s *server) {
		r.fired.during = func(context.Context, hooks.Point) { <-time.After(2 * time.Second) }
		w, created, err := s.Start(t.Context(), r.claim.ID, request("", 10*time.Second))
		require.NoError(t, err)
		require.True(t, created)
		sleep(11900 * time.Millisecond)
		require.Equal(t, wait.Waiting, r.wait(w.ID).State)
		sleep(200 * time.Millisecond)
		require.Equal(t, wait.TimingOut, r.wait(w.ID).State)
		sleep(2 * time.Second)
		w = r.wait(w.ID)
		require.Equal(t, wait.TimedOut, w.State)
		require.Equal(t, 10*time.Second, w.Deadline.Sub(*w.StartedAt))
		require.Less(t, w.Exceeded(), 10*time.Millisecond)
	})
}

// A caller gets the data of the signal when the wait_signal hooks have run.
func TestSignal(t *testing.T) {
	on(t, file, func(t *testing.T, r *rig, s *server) {
		var g errgroup.Group
		var got wait.Wait
		g.Go(func() (err error) {
			got, err = s.Wait(t.Context(), r.claim.ID, request("a", time.Minute))
			return err
		})
		sleep(time.Second)
		result, err := s.Signal(t.Context(), r.claim.ID, "a", json.RawMessage(` {"ok": true} `))
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		require.Equal(t, []any{wait.Signalled, result.Wait, `{"ok":true}`}, []any{got.State, got.ID, string(got.Data)})
		require.Equal(t, map[string]int{got.ID + ".1 wait_start": 1, got.ID + ".1 wait_signal": 1}, r.fired.begun)
		again, err := s.Wait(t.Context(), r.claim.ID, request("a", time.Second))
		require.NoError(t, err)
		require.NotEqual(t, got.ID, again.ID)
	})
}

// What the last hook of wait_timeout prints decides; else the wait's on_timeout does.
func TestDecisions(t *testing.T) {
	for i, tt := range []struct {
		output    string
		onTimeout wait.Decision
		state     wait.State
		seconds   float64 // from the beginning to the end
		reason    string
	}{
		{"", "", wait.TimedOut, 10, ""},
		{"", wait.Abort, wait.Aborted, 10, ""},
		{"no JSON", wait.Abort, wait.Aborted, 10, ""},
		{"[1]", wait.Abort, wait.Aborted, 10, ""},
		{`{"decision":"abort"}`, wait.Retry, wait.Aborted, 10, ""},
		{"saved\n\n" + `{"decision":"abort"}` + "\n \n", "", wait.Aborted, 10, ""},
		{`{"decision":"abort"}` + "\nlast line", "", wait.TimedOut, 10, ""},
		{`{"decision":"explode"}`, wait.Abort, wait.Aborted, 10, "unknown decision"},
		{`{"decision":"extend","by":"5s"}`, "", wait.TimedOut, 15, "extended before"},
		{`{"decision":"extend"}`, "", wait.TimedOut, 20, "extended before"},
		{`{"decision":"extend","by":"9000h"}`, "", wait.TimedOut, 310, "extended before"},
		{`{"decision":"extend","by":"-5s"}`, wait.Abort, wait.Aborted, 10, "not a duration"},
		{`{"decision":"extend","by":"9999999999h"}`, wait.Abort, wait.Aborted, 10, "not a duration"},
		{`{"decision":"extend","by":5}`, wait.Abort, wait.Aborted, 10, ""},
		{`{"decision":"retry"}`, wait.Abort, wait.TimedOut, 20, "retried before"},
		{"", wait.Retry, wait.TimedOut, 20, "retried before"},
		{"", wait.Extend, wait.TimedOut, 20, "extended before"},
		{strings.Repeat("x", 10<<20), wait.Abort, wait.Aborted, 10, ""},
	} {
		t.Run(fmt.Sprint(i, " ", tt.output[:min(len(tt.output), 40)]), func(t *testing.T) {
			on(t, file, func(t *testing.T, r *rig, s *server) {
				r.fired.output = func(hooks.Point, *runner.Wait) string { return tt.output }
				q := request("", 10*time.Second)
				q.OnTimeout = tt.onTimeout
				begin := time.Now()
				w, err := s.Wait(t.Context(), r.claim.ID, q)
				require.NoError(t, err)
				require.Equal(t, tt.state, w.State)
				require.Contains(t, w.Reason, tt.reason)
				require.InDelta(t, tt.seconds, time.Since(begin).Seconds(), 0.5)
				require.Equal(t, tt.state == wait.TimedOut, len(r.Events(activity.WaitEscalated)) == 1)
				c, err := r.DB.Claim(t.Context(), r.claim.ID)
				require.NoError(t, err)
				require.Equal(t, claim.Active, c.State, "the claim stays")
			})
		})
	}
}

// Without hooks the on_timeout decides, in the transaction of the deadline.
func TestWithoutHooks(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		q := request("", 10*time.Second)
		q.OnTimeout = wait.Retry
		begin := time.Now()
		w, err := s.Wait(t.Context(), r.claim.ID, q)
		require.NoError(t, err)
		require.Equal(t, []any{wait.TimedOut, 2}, []any{w.State, w.Round})
		require.InDelta(t, 20, time.Since(begin).Seconds(), 0.5)
		require.Empty(t, r.fired.begun)
	})
}

// Hooks know the context of the wait, its durations and its signal.
func TestVariables(t *testing.T) {
	on(t, file, func(t *testing.T, r *rig, s *server) {
		q := request("a", 10*time.Second)
		q.Context = json.RawMessage(`{"task": "do \u0000 it", "iteration": 3, "phase": "auth", "more": [1]}`)
		r.fired.output = func(hooks.Point, *runner.Wait) string { return `{"decision":"retry"}` }
		var g errgroup.Group
		g.Go(func() error { _, err := s.Wait(t.Context(), r.claim.ID, q); return err })
		sleep(13 * time.Second)
		_, err := s.Signal(t.Context(), r.claim.ID, "a", json.RawMessage(`{"by": "reviewer"}`))
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		always := map[string]string{"TASK": "do  it", "ITERATION": "3", "WAIT_PHASE": "auth", "WAIT_TYPE": "review", "WAIT_NAME": "a", "TIMEOUT_THRESHOLD": "10000"}
		further := []map[string]string{
			{}, {"TIMEOUT_DURATION": "10000", "EXCEEDED_BY": "0"}, {}, {"SIGNAL_DATA": `{"by":"reviewer"}`, "WAIT_DURATION": "3000"},
		}
		require.Len(t, r.fired.seen, len(further))
		for i, want := range further {
			maps.Copy(want, always)
			require.Equal(t, want, r.fired.seen[i].Variables, i)
			require.True(t, json.Valid(r.fired.seen[i].Data))
		}
	})
}

// A request that can never succeed is refused, and recorded nowhere.
func TestInvalidRequests(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		for what, change := range map[string]func(*wait.Request){
			"type":      func(q *wait.Request) { q.Type = "Consensus" },
			"no type":   func(q *wait.Request) { q.Type = "" },
			"long type": func(q *wait.Request) { q.Type = strings.Repeat("a", 64) },
			"name":      func(q *wait.Request) { q.Name = "a\x00" },
			"newline":   func(q *wait.Request) { q.Name = "a\n" },
			"long name": func(q *wait.Request) { q.Name = strings.Repeat("a", 129) },
			"id":        func(q *wait.Request) { q.ID = "a b" },
			"zero":      func(q *wait.Request) { q.Timeout = 0 },
			"negative":  func(q *wait.Request) { q.Timeout = -time.Second },
			"huge":      func(q *wait.Request) { q.Timeout = 5*time.Minute + 1 },
			"decision":  func(q *wait.Request) { q.OnTimeout = "explode" },
			"context":   func(q *wait.Request) { q.Context = json.RawMessage("{") },
			"not UTF-8": func(q *wait.Request) { q.Context = json.RawMessage("\"\xff\"") },
			"long":      func(q *wait.Request) { q.Context = json.RawMessage(`"` + strings.Repeat("a", wait.MaxJSON) + `"`) },
		} {
			q := request("a", time.Second)
			change(&q)
			_, _, err := s.Start(t.Context(), r.claim.ID, q)
			require.ErrorIs(t, err, wait.ErrInvalid, what)
		}
		for _, data := range []string{"{", "\"\xff\"", `"` + strings.Repeat("a", wait.MaxJSON) + `"`} {
			_, err := s.Signal(t.Context(), r.claim.ID, "a", json.RawMessage(data))
			require.ErrorIs(t, err, wait.ErrInvalid)
		}
		_, err := s.Signal(t.Context(), r.claim.ID, "a\x00", nil)
		require.ErrorIs(t, err, wait.ErrInvalid)
		_, _, err = s.Start(t.Context(), "none", request("a", time.Second))
		require.ErrorIs(t, err, claim.ErrClaimNotFound)
		all, err := r.DB.Waits(t.Context(), wait.Filter{})
		require.NoError(t, err)
		require.Empty(t, all)
		for _, kind := range []string{"consensus", "validation", "dependency", "review-2"} {
			w, created, err := s.Start(t.Context(), r.claim.ID, wait.Request{Name: kind, Type: kind, Timeout: 5 * time.Minute})
			require.NoError(t, err)
			require.True(t, created)
			require.Equal(t, kind, w.Type)
		}
	})
}

// Of a thousand signals for which no wait is open, the first 16 are kept, and each
// goes to one wait, in order.
func TestEarlySignals(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		for n := range 1000 {
			result, err := s.Signal(t.Context(), r.claim.ID, "a", json.RawMessage(fmt.Sprint(n)))
			if n < wait.MaxKeptPerName {
				require.NoError(t, err)
				require.Equal(t, wait.SignalResult{Kept: n + 1}, result)
			} else {
				require.ErrorIs(t, err, wait.ErrTooMany)
			}
		}
		for n := range wait.MaxKeptPerName {
			w, err := s.Wait(t.Context(), r.claim.ID, request("a", time.Minute))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(n), string(w.Data))
		}
	})
}

// The release of a claim ends the hooks of its waits, and the callers get the end.
func TestReleaseEndsHooks(t *testing.T) {
	on(t, file, func(t *testing.T, r *rig, s *server) {
		ended := make(chan error, 1)
		r.fired.during = func(ctx context.Context, p hooks.Point) {
			if p == hooks.WaitTimeout {
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
				ended <- context.Cause(ctx)
			}
		}
		var g errgroup.Group
		var got wait.Wait
		g.Go(func() (err error) {
			got, err = s.Wait(t.Context(), r.claim.ID, request("", time.Second))
			return err
		})
		sleep(2 * time.Second)
		require.Equal(t, wait.TimingOut, r.onlyWait().State)
		_, err := r.DB.UpdateClaim(t.Context(), claim.BeginRelease(r.claim.ID, "test", false))
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		require.Equal(t, wait.Cancelled, got.State)
		require.ErrorContains(t, <-ended, "the claim of the wait has ended")
		sleep(time.Minute)
		require.Equal(t, got.EndedAt, r.onlyWait().EndedAt)
	})
}

// A hook that may not start, because the container is destroyed by force, does not
// hold back its wait.
func TestForcedContainer(t *testing.T) {
	on(t, file, func(t *testing.T, r *rig, s *server) {
		r.fired.err = fmt.Errorf("record the start: %w", pool.ErrConflict)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w, err := s.Wait(ctx, r.claim.ID, request("", time.Second))
		require.NoError(t, err)
		require.Equal(t, wait.TimedOut, w.State)
	})
}

// A clock of the database that is set changes no deadline of a wait that a server
// knows.
func TestClockIsSet(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		w, _, err := s.Start(t.Context(), r.claim.ID, request("", time.Minute))
		require.NoError(t, err)
		for _, jump := range []time.Duration{-time.Hour, time.Hour} {
			r.setClock(jump)
			sleep(29 * time.Second) // the waits are listed again in the meantime
			require.Equal(t, wait.Waiting, r.wait(w.ID).State, jump)
		}
		r.setClock(-time.Hour)
		sleep(3 * time.Second)
		require.Equal(t, wait.TimedOut, r.wait(w.ID).State)
	})
}

// A wait whose deadline passes while the database is unavailable ends when it is
// available.
func TestOutage(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		w, _, err := s.Start(t.Context(), r.claim.ID, request("", 10*time.Second))
		require.NoError(t, err)
		r.setOutage(true)
		sleep(time.Minute)
		_, err = s.Get(t.Context(), w.ID)
		require.ErrorIs(t, err, errOutage)
		r.setOutage(false)
		sleep(3 * time.Second)
		require.Equal(t, wait.TimedOut, r.wait(w.ID).State)
	})
}

// A wait whose server is killed ends on another one within a second of its deadline,
// and one whose hooks run is taken over.
func TestServerIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, file)
		first, second := r.start(), r.start()
		w, _, err := first.Start(t.Context(), r.claim.ID, request("a", 10*time.Second))
		require.NoError(t, err)
		sleep(time.Second)
		r.fired.during = func(ctx context.Context, p hooks.Point) {
			if p == hooks.WaitStart {
				<-time.After(time.Second)
			}
		}
		starting, _, err := first.Start(t.Context(), r.claim.ID, request("b", 10*time.Second))
		require.NoError(t, err)
		synctest.Wait()
		first.kill()
		sleep(9500 * time.Millisecond)
		require.Equal(t, wait.TimedOut, r.wait(w.ID).State, "not only the server that began it")
		require.Equal(t, wait.Starting, r.wait(starting.ID).State)
		second.kill()
		r.start()
		sleep(time.Second)
		require.Equal(t, wait.Waiting, r.wait(starting.ID).State)
		require.Equal(t, 1, r.fired.begun[starting.ID+".1 wait_start"])
	})
}

// Close has callers return, and ends no wait.
func TestClose(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		var g errgroup.Group
		var got wait.Wait
		g.Go(func() (err error) {
			got, err = s.Wait(t.Context(), r.claim.ID, request("", time.Minute))
			return err
		})
		sleep(time.Second)
		begin := time.Now()
		s.Close()
		s.Close()
		require.NoError(t, g.Wait())
		require.Less(t, time.Since(begin), time.Second)
		require.Equal(t, wait.Waiting, got.State)
	})
}

// The end of a caller's time ends no wait, and the same request returns to it, also
// after its end and after that of the claim.
func TestRequestIsRepeated(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		q := request("", 10*time.Second)
		q.ID = "r-1"
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w, err := s.Wait(ctx, r.claim.ID, q)
		require.NoError(t, err)
		require.Equal(t, wait.Waiting, w.State)
		again, err := s.Wait(t.Context(), r.claim.ID, q)
		require.NoError(t, err)
		require.Equal(t, []any{w.ID, wait.TimedOut}, []any{again.ID, again.State})
		r.Release(r.claim)
		again, created, err := s.Start(t.Context(), r.claim.ID, q)
		require.NoError(t, err)
		require.Equal(t, []any{w.ID, false}, []any{again.ID, created})
		q.ID = "r-2"
		_, _, err = s.Start(t.Context(), r.claim.ID, q)
		require.ErrorIs(t, err, claim.ErrNotActive)
	})
}

// What a hook prints that fails decides nothing.
func TestFailedHookDecidesNothing(t *testing.T) {
	on(t, file, func(t *testing.T, r *rig, s *server) {
		r.fired.output = func(hooks.Point, *runner.Wait) string { return `{"decision":"abort"}` }
		r.fired.state = hooks.Failed
		w, err := s.Wait(t.Context(), r.claim.ID, request("", time.Second))
		require.NoError(t, err)
		require.Equal(t, wait.TimedOut, w.State)
	})
}
