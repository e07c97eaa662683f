package wait_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/wait"
)

// Whatever comes together - signals, deadlines, extensions, retries, the release of
// the claim, the end of a server - each wait has exactly one end, and the hooks of a
// point run once in a round.
func TestOneEnd(t *testing.T) {
	for seed := range uint64(300) {
		name := fmt.Sprint("seed ", seed)
		if !testenv.Selects(8, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomSchedule(t, rand.New(rand.NewPCG(seed, 12))) })
		})
	}
}

// endTypes are the types of the events of ends, by the state.
var endTypes = map[wait.State]activity.Type{
	wait.Signalled: activity.WaitSignalled, wait.TimedOut: activity.WaitTimedOut,
	wait.Aborted: activity.WaitAborted, wait.Cancelled: activity.WaitCancelled,
}

func randomSchedule(t *testing.T, random *rand.Rand) {
	r := newRig(t, file)
	r.fired.random = rand.New(rand.NewPCG(random.Uint64(), 1))
	decisions := []string{"", "{}", `{"decision":"abort"}`, `{"decision":"extend","by":"2s"}`, `{"decision":"retry"}`, `{"decision":"escalate"}`, "garbage"}
	r.fired.output = func(hooks.Point, *runner.Wait) string { return decisions[r.fired.random.IntN(len(decisions))] }
	first, second := r.start(), r.start()
	servers := []*server{first, second}
	alive := func() *server { return servers[len(servers)-1-random.IntN(min(2, len(servers)))] }

	var g errgroup.Group
	ctx := context.Background()
	ends := map[string]wait.State{}
	results := make(chan wait.Wait, 100)
	accepted := map[string]bool{}
	released := false
	for range 8 + random.IntN(20) {
		// Whole seconds make signals and deadlines coincide.
		sleep(time.Duration(random.IntN(4)) * time.Second)
		name := []string{"", "a"}[random.IntN(2)]
		switch random.IntN(10) {
		case 0, 1, 2, 3:
			q := wait.Request{
				ID: fmt.Sprint("r", random.IntN(8)), Name: name, Type: "review", Timeout: time.Duration(1+random.IntN(6)) * time.Second,
				OnTimeout: append(wait.Decisions(), "")[random.IntN(5)],
			}
			s := alive()
			g.Go(func() error {
				w, err := s.Wait(ctx, r.claim.ID, q)
				if err == nil {
					results <- w
				}
				return nil
			})
		case 4, 5, 6, 7:
			data := json.RawMessage(fmt.Sprint(random.Uint32()))
			if _, err := alive().Signal(ctx, r.claim.ID, name, data); err == nil {
				accepted[string(data)] = true
			}
		case 8:
			victim := random.IntN(len(servers))
			servers[victim].kill()
			servers = append(slices.Delete(servers, victim, victim+1), r.start())
		case 9:
			if random.IntN(3) == 0 && !released {
				released = true
				_, err := r.DB.UpdateClaim(ctx, claim.BeginRelease(r.claim.ID, "test", false))
				require.NoError(t, err)
			}
		}
	}
	sleep(2 * time.Minute)
	for _, s := range servers {
		s.Close()
	}
	require.NoError(t, g.Wait())
	close(results)

	all, err := r.DB.Waits(ctx, wait.Filter{})
	require.NoError(t, err)
	for _, w := range all {
		require.False(t, w.State.IsOpen(), "%+v", w)
		ends[w.ID] = w.State
		requireOneEnd(t, r, w)
		if w.State == wait.Signalled {
			delete(accepted, string(w.Data)) // a signal is given to one wait
		}
	}
	for w := range results {
		if !w.State.IsOpen() {
			require.Equal(t, ends[w.ID], w.State)
		}
	}
	c, err := r.DB.Claim(ctx, r.claim.ID)
	require.NoError(t, err)
	require.Zero(t, c.Waits)
	if !released {
		require.Equal(t, len(accepted), c.KeptSignals, "a signal is kept or given to one wait")
	}
}

// requireOneEnd checks the events and the hooks of a wait that has ended.
func requireOneEnd(t *testing.T, r *rig, w wait.Wait) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("wait %+v\nhooks %v", w, r.fired.begun)
			for _, e := range r.Events("wait") {
				t.Logf("%s %s %s", e.Time, e.Type, e.Data)
			}
		}
	}()
	count := map[activity.Type]int{}
	for _, e := range r.Events("wait") {
		var data activity.WaitData
		require.NoError(t, json.Unmarshal(e.Data, &data))
		if data.Wait == w.ID {
			count[e.Type]++
		}
	}
	require.Equal(t, 1, count[activity.WaitRequested])
	total := 0
	for state, typ := range endTypes {
		total += count[typ]
		require.Equal(t, state == w.State, count[typ] == 1, "%s: %v", w.State, count)
	}
	require.Equal(t, 1, total, "%v", count)
	require.LessOrEqual(t, count[activity.WaitExtended], 1)
	require.LessOrEqual(t, count[activity.WaitRetried], 1)
	require.Equal(t, count[activity.WaitTimedOut], count[activity.WaitEscalated])
	hooksOf := func(p hooks.Point, round int) int {
		n := r.fired.begun[fmt.Sprintf("%s.%d %s", w.ID, round, p)]
		require.LessOrEqual(t, n, 1, "%s in round %d", p, round)
		return n
	}
	for round := 1; round < w.Round; round++ {
		hooksOf(hooks.WaitStart, round)
		require.Equal(t, 1, hooksOf(hooks.WaitTimeout, round))
		require.Zero(t, hooksOf(hooks.WaitSignal, round))
	}
	signal, timeout := hooksOf(hooks.WaitSignal, w.Round), hooksOf(hooks.WaitTimeout, w.Round)
	switch w.State {
	case wait.Signalled:
		require.Equal(t, []int{1, 0}, []int{signal, timeout})
	case wait.TimedOut, wait.Aborted:
		require.Equal(t, []int{0, 1}, []int{signal, timeout})
	}
}
