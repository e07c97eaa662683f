package soak

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// history is the state after a part of the event log.
type history struct {
	started, ended map[string]int    // attempts of hooks, by run and attempt
	open           map[string]bool   // claims that were requested and have not ended
	active         map[string]bool   // claims that became active
	holds          map[string]string // claims by their containers
	tenants        map[string]string // by claim
}

// requireLog checks the whole event log: no container had two claims at a time,
// and everything that started has ended once.
func (s *soak) requireLog(t *testing.T, db *store.DB) {
	t.Helper()
	h := &history{
		started: map[string]int{}, ended: map[string]int{},
		open: map[string]bool{}, active: map[string]bool{}, holds: map[string]string{}, tenants: map[string]string{},
	}
	var after int64
	for {
		page, err := db.Events(t.Context(), activity.Filter{}, after, 1000)
		require.NoError(t, err)
		if len(page.Items) == 0 {
			break
		}
		for _, e := range page.Items {
			require.NoError(t, h.apply(e), "event %d: %s", e.Seq, e.Message)
			s.tallyEvent(e)
		}
		after = page.Next
	}
	require.Equal(t, h.started, h.ended, "attempts of hooks that started and that ended")
	require.Empty(t, h.open, "claims without an end")
	require.Empty(t, h.holds, "containers with a holder")
}

// apply applies an event, and returns an error if it contradicts earlier ones.
func (h *history) apply(e activity.Event) error {
	if e.Untrusted {
		return h.checkPublished(e)
	}
	switch e.Type {
	case activity.HookStarted, activity.HookCompleted, activity.HookFailed:
		return h.applyHook(e)
	case activity.ContainerClaimed:
		if holder := h.holds[e.Container]; holder != "" {
			return fmt.Errorf("claim %s gets container %s, which claim %s holds", e.Claim, e.Container, holder)
		}
		h.holds[e.Container] = e.Claim
	case activity.ContainerReleased, activity.ContainerDestroying:
		delete(h.holds, e.Container)
	case activity.ClaimRequested, activity.ClaimActivated, activity.ClaimFailed, activity.ClaimReleased:
		return h.applyClaim(e)
	}
	return nil
}

// checkPublished checks that a tenant's program has published an event for its own
// claim: the data has the marker of the program that has sent it.
func (h *history) checkPublished(e activity.Event) error {
	var data struct{ Marker string }
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return err
	}
	number, _, _ := strings.Cut(e.Tenant, ".")
	switch holder := h.holds[e.Container]; {
	case e.Type != "custom.attack":
		return fmt.Errorf("nothing publishes %s", e.Type)
	case data.Marker != "mksoak"+number+"x":
		return fmt.Errorf("REACHED: the program of %s has published an event of tenant %s, claim %s", data.Marker, e.Tenant, e.Claim)
	case !h.active[e.Claim] || !h.open[e.Claim] || h.tenants[e.Claim] != e.Tenant:
		return fmt.Errorf("REACHED: an event is published for claim %s of tenant %s, which is of %q, was active: %t, and has not ended: %t",
			e.Claim, e.Tenant, h.tenants[e.Claim], h.active[e.Claim], h.open[e.Claim])
	case holder != "" && holder != e.Claim: // "" while the container is destroyed
		return fmt.Errorf("REACHED: an event of claim %s is published from container %s, which claim %s holds", e.Claim, e.Container, holder)
	}
	return nil
}

// publishers is how many attacks on requests publish some event, whatever happens to
// their containers.
const publishers = 20

// requirePublished checks that the attacks on requests have published events, which
// checkPublished has checked.
func (s *soak) requirePublished(t *testing.T) {
	t.Helper()
	s.counters.mu.Lock()
	defer s.counters.mu.Unlock()
	if s.counters.counts["attacks: requests: performed"] >= publishers {
		require.NotZero(t, s.counters.counts[publishedEvents])
	}
}

func (h *history) applyHook(e activity.Event) error {
	var data struct{ Attempt int }
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return err
	}
	attempt := fmt.Sprintf("%s.%d", e.Run, data.Attempt)
	if e.Type == activity.HookStarted {
		if h.started[attempt]++; h.started[attempt] > 1 {
			return fmt.Errorf("attempt %s has started before", attempt)
		}
		return nil
	}
	if h.ended[attempt]++; h.ended[attempt] > h.started[attempt] {
		return fmt.Errorf("attempt %s has ended before, or never started", attempt)
	}
	return nil
}

func (h *history) applyClaim(e activity.Event) error {
	if e.Type == activity.ClaimRequested {
		if h.open[e.Claim] {
			return fmt.Errorf("claim %s was requested before", e.Claim)
		}
		h.open[e.Claim], h.tenants[e.Claim] = true, e.Tenant
		return nil
	}
	if !h.open[e.Claim] {
		return fmt.Errorf("claim %s has ended before, or was never requested", e.Claim)
	}
	if e.Type == activity.ClaimActivated {
		if h.active[e.Claim] {
			return fmt.Errorf("claim %s was active before", e.Claim)
		}
		h.active[e.Claim] = true
		return nil
	}
	if failed := e.Type == activity.ClaimFailed; failed == h.active[e.Claim] {
		return fmt.Errorf("claim %s: %s, and it was active: %t", e.Claim, e.Type, h.active[e.Claim])
	}
	delete(h.open, e.Claim)
	return nil
}

// requireRuns checks every attempt of every hook: each ended in a state that its
// behavior allows, none ran twice for a claim or a container, and none found
// traces of another tenant.
func (s *soak) requireRuns(t *testing.T, db *store.DB) {
	t.Helper()
	unfinished, err := db.Runs(t.Context(), hooks.RunFilter{States: []hooks.RunState{hooks.Running}})
	require.NoError(t, err)
	require.Empty(t, unfinished)
	var failures []string
	timed, late := 0, 0
	require.NoError(t, everyContainer(t.Context(), db, func(c pool.Container) error {
		runs, err := db.Runs(t.Context(), hooks.RunFilter{Container: c.ID})
		if err != nil {
			return err
		}
		if s.workload(c.Workload).attacked {
			failures = append(failures, s.checkVisits(c, runs)...)
			return nil
		}
		for _, r := range runs {
			s.counters.add("hooks: %s, %s: %s", r.Point, r.Hook, r.State)
			if r.State == hooks.Unknown {
				why := names.ReplaceAllString(r.Error, "X")
				s.counters.add("unknown outcomes: %s", why[:min(len(why), 240)])
			}
			if r.Hook == "act" || r.Hook == "gone" {
				timed++
			}
			if isLate(r) {
				late++
			}
			if r.Hook == "act" {
				s.counters.add("tenants: %s: %s", behaviorOf(r.Tenant, r.Point).name, r.State)
			}
		}
		if err := checkAttempts(runs); err != nil {
			failures = append(failures, fmt.Sprintf("container %s of %s: %v, in:%s", c.ID, c.Workload, err, formatRuns(runs)))
		}
		return nil
	}))
	require.Empty(t, strings.Join(failures, "\n"))
	require.LessOrEqual(t, late, lateSlack+timed/20, "late hooks, of %d", timed)
	ended, err := db.Claims(t.Context(), claim.Filter{States: claim.States()})
	require.NoError(t, err)
	for _, c := range ended {
		require.Contains(t, []claim.State{claim.Released, claim.Failed}, c.State, c.ID)
	}
}

// lateSlack is the allowed number of late hooks in a short soak.
const lateSlack = 3

// names match the names in errors, which differ in errors of one kind.
var names = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|soak[0-9]+`)

// formatRuns formats the runs in a container for failure messages.
func formatRuns(runs []hooks.Run) string {
	var b strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&b, "\n    %s +%.0fms %s.%d %s %s of %q: %s, code %d, leaked %d, %s %.600s", r.StartedAt.Format("15:04:05.000"),
			r.Duration, r.ID, r.Attempt, r.Point, r.Hook, r.Tenant, r.State, deref(r.ExitCode), r.Leaked, r.Error, r.Stdout.String())
	}
	return b.String()
}

// hasRepeatedRun returns an error if a hook of a claim or a container has started
// twice.
func hasRepeatedRun(runs []hooks.Run) error {
	once := map[string]string{}
	for _, r := range runs {
		what := runSubject(r)
		if before, ok := once[what]; ok && before != r.ID {
			return fmt.Errorf("%s ran as %s and as %s", what, before, r.ID)
		}
		once[what] = r.ID
	}
	return nil
}

// checkAttempts checks the attempts in a container.
func checkAttempts(runs []hooks.Run) error {
	mustFail := false
	for _, r := range runs {
		// Processes of a hook with an unknown outcome may make the last hook fail,
		// until the container is destroyed.
		if err := checkAttempt(r); err != nil && !(mustFail && r.Point == hooks.PreDestroy) {
			return fmt.Errorf("%s, run %s attempt %d: %w", runSubject(r), r.ID, r.Attempt, err)
		}
		mustFail = mustFail || r.State == hooks.Unknown
	}
	return hasRepeatedRun(runs)
}

// runSubject returns the identity of a hook that runs once.
func runSubject(r hooks.Run) string {
	return fmt.Sprintf("%s %s of claim %q", r.Point, r.Hook, r.Claim)
}

// checkAttempt checks an attempt.
func checkAttempt(r hooks.Run) error {
	if r.Hook == "act" {
		return behaviorOf(r.Tenant, r.Point).allows(r)
	}
	fine := []hooks.RunState{hooks.Succeeded, hooks.Lost, hooks.Unknown, hooks.Skipped}
	if !slices.Contains(fine, r.State) && !isLate(r) {
		return fmt.Errorf("tenant %q: it ended as %s (%s): %s", r.Tenant, r.State, r.Error, r.Stdout)
	}
	return nil
}
