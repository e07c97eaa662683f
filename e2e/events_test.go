package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// eventsOf returns a filter for events of a workload and of these types.
func eventsOf(workload string, types ...client.EventType) client.EventFilter {
	return client.EventFilter{Workload: workload, Types: types}
}

// awaitEvent waits for the nth event that matches.
func (s *server) awaitEvent(f client.EventFilter, n int) client.Event {
	s.t.Helper()
	seen := errors.New("seen")
	var nth client.Event
	err := s.Follow(testenv.Context(s.t), client.EventQuery{EventFilter: f, After: "0"}, func(e client.FollowedEvent) error {
		nth = e.Event
		if n--; n == 0 {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		require.NoError(s.t, err)
		s.t.Fatalf("no such event: %+v; there are\n%s", f, s.eventLog())
	}
	return nth
}

// events returns all events so far that match.
func (s *server) events(f client.EventFilter) []client.Event {
	s.t.Helper()
	var all []client.Event
	q := client.EventQuery{EventFilter: f, After: "0"}
	for {
		page, err := s.Events(s.t.Context(), q, 1000)
		require.NoError(s.t, err)
		all = append(all, page.Items...)
		if next := strconv.FormatInt(page.Next, 10); next != q.After {
			q.After = next
			continue
		}
		return all
	}
}

// eventLog returns all events as text, for failure messages.
func (s *server) eventLog() string {
	text := ""
	for _, e := range s.events(client.EventFilter{}) {
		text += fmt.Sprintf("%4d %-21s %s %s %s\n", e.Seq, e.Type, e.Workload, e.Container, e.Message)
	}
	return text
}

// eventTypes returns the types of events, in order.
func eventTypes(events []client.Event) []client.EventType {
	all := make([]client.EventType, len(events))
	for i, e := range events {
		all[i] = e.Type
	}
	return all
}

// apply applies a workload file.
func (s *server) apply(id, rest string) {
	s.t.Helper()
	_, err := s.Apply(s.t.Context(), id, []byte(workload(s.t, s.rt, id, rest)))
	require.NoError(s.t, err)
}

// deleteWorkload deletes a workload and waits until its last container is
// destroyed.
func (s *server) deleteWorkload(id string) {
	s.t.Helper()
	_, err := s.DeleteWorkload(s.t.Context(), id)
	require.NoError(s.t, err)
	s.awaitEvent(eventsOf(id, client.EventWorkloadDeleted), 1)
}

// runsOf returns the hook runs that match.
func (s *server) runsOf(f client.RunFilter) []client.Run {
	s.t.Helper()
	runs, err := s.Runs(s.t.Context(), f)
	require.NoError(s.t, err)
	return runs
}

// outputsByHook returns the output of the runs, by the hook's name.
func outputsByHook(runs []client.Run) map[string]string {
	all := map[string]string{}
	for _, r := range runs {
		all[r.Hook] += r.Stdout.String()
	}
	return all
}

// requireEnds checks that every attempt that has started has ended exactly once.
func (s *server) requireEnds() {
	s.t.Helper()
	begun, ended := map[string]int{}, map[string]int{}
	for _, e := range s.events(eventsOf("", "hook")) {
		switch e.Type {
		case client.EventHookStarted:
			begun[e.Run]++
		case client.EventHookCompleted, client.EventHookFailed:
			ended[e.Run]++
		}
	}
	require.Equal(s.t, begun, ended, "every start has one end")
	records := map[string]int{}
	for _, r := range s.runsOf(client.RunFilter{}) {
		require.NotEqual(s.t, client.RunRunning, r.State, "run %s of %s", r.ID, r.Hook)
		if r.State != client.RunSkipped {
			records[r.ID]++
		}
	}
	require.Equal(s.t, begun, records, "every start has one record")
}

// requireEngineMatchesRecords waits until the engine has the containers of the
// database and no others. Containers that are being created or destroyed are
// briefly in only one of them.
func (s *server) requireEngineMatchesRecords() {
	s.t.Helper()
	var have, want []string
	s.eventually(func() bool {
		there, err := s.engine.List(s.t.Context())
		require.NoError(s.t, err)
		known, err := s.Containers(s.t.Context(), client.ContainerFilter{})
		require.NoError(s.t, err)
		have, want = nil, nil
		for _, c := range there {
			have = append(have, c.ID)
		}
		for _, c := range known {
			want = append(want, c.ID)
		}
		slices.Sort(have)
		slices.Sort(want)
		return slices.Equal(have, want)
	})
	require.Equal(s.t, want, have, "containers of the engine and of the database")
}

// requireNothingLeft waits until nothing is left of what the server has created.
// What an engine creates after the call was abandoned is removed by the next
// comparison with the database.
func (s *server) requireNothingLeft() {
	s.t.Helper()
	var left []string
	s.eventually(func() bool { left = s.rt.leftovers(s.t, s); return len(left) == 0 })
	require.Empty(s.t, left)
}

// eventually waits until so returns true. If it does not before the test's deadline,
// the test has failed, and continues: what follows may say more.
func (s *server) eventually(so func() bool) {
	s.t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	limit := testenv.Context(s.t)
	for !so() {
		select {
		case <-again.C:
		case <-limit.Done():
			s.t.Error("what the test waits for is not so before the test's deadline")
			return
		}
	}
}
