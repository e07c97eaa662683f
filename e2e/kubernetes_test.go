package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/hostler/hostler/client"
)

// removals returns the ways in which someone other than Hostler removes a pod.
func removals() map[string]struct {
	path   string
	object func(id string) any
} {
	type removal = struct {
		path   string
		object func(id string) any
	}
	return map[string]removal{
		"deleted": {"", func(string) any { return nil }},
		"forced":  {"", func(string) any { return map[string]any{"gracePeriodSeconds": 0} }},
		"evicted": {"/eviction", func(id string) any {
			return map[string]any{
				"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": "hostler-" + id},
			}
		}},
	}
}

// podRemoval is a workload with a pod that is removed by someone other than
// Hostler.
type podRemoval struct {
	s      *server
	id     string
	marker string
	how    string
}

// removePod removes a container's pod.
func (r *podRemoval) removePod(container string) {
	r.s.t.Helper()
	how := removals()[r.how]
	method := http.MethodDelete
	if how.path != "" {
		method = http.MethodPost
	}
	askCluster(r.s.t, method, podPath(container)+how.path, how.object(container), nil)
}

// awaitDestroyed waits until a container is destroyed.
func (r *podRemoval) awaitDestroyed(container string) {
	r.s.t.Helper()
	f := eventsOf(r.id, client.EventContainerDestroyed)
	f.Container = container
	r.s.awaitEvent(f, 1)
}

// An idle container is replaced.
func (r *podRemoval) whileIdle() {
	container := r.s.awaitEvent(eventsOf(r.id, client.EventContainerCreated), 1).Container
	r.removePod(container)
	r.awaitDestroyed(container)
	r.s.awaitEvent(eventsOf(r.id, client.EventContainerCreated), 2)
	c, _, err := r.s.Claim(r.s.t.Context(), r.id, "ada", 0)
	require.NoError(r.s.t, err)
	require.NotEqual(r.s.t, container, c.Container)
}

// A claim stays its tenant's. Its container's health is exited, and the tenant
// gets another container after the release.
func (r *podRemoval) whileClaimed() {
	t := r.s.t
	c, _, err := r.s.Claim(t.Context(), r.id, "ada", waitTimeout)
	require.NoError(t, err)
	r.removePod(c.Container)
	died := eventsOf(r.id, client.EventContainerDied)
	died.Claim = c.ID
	r.s.awaitEvent(died, 1)
	again, created, err := r.s.Claim(t.Context(), r.id, "ada", 0)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, c.ID, again.ID)
	container, err := r.s.Container(t.Context(), c.Container)
	require.NoError(t, err)
	require.Equal(t, client.ContainerClaimed, container.State)
	require.Equal(t, client.Exited, container.Health)

	got, err := r.s.Release(t.Context(), c.ID, false)
	require.NoError(t, err)
	require.Equal(t, client.ClaimReleased, got.State)
	skipped := r.s.runsOf(client.RunFilter{Claim: c.ID, Point: client.PreRelease})
	require.Len(t, skipped, 1)
	require.Equal(t, client.RunSkipped, skipped[0].State, "the container has exited")
	r.awaitDestroyed(c.Container)
	next, _, err := r.s.Claim(t.Context(), r.id, "ada", waitTimeout)
	require.NoError(t, err)
	require.NotEqual(t, c.Container, next.Container)
}

// An interrupted hook is recorded as lost or unknown, and its claim fails: a
// claim never becomes active on an assumption.
func (r *podRemoval) whileHookRuns() {
	t := r.s.t
	answer := make(chan error, 1)
	go func() { // ends with its claim
		_, _, err := r.s.Claim(t.Context(), r.id, "ada", waitTimeout)
		answer <- err
	}()
	begun := r.s.awaitEvent(eventsOf(r.id, client.EventHookStarted), 1)
	r.s.awaitProcess(begun.Container, r.marker)
	r.removePod(begun.Container)
	refused := problemOf(t, <-answer)
	require.Equal(t, client.CodeHookFailed, refused.Code)
	runs := r.s.runsOf(client.RunFilter{Claim: begun.Claim})
	require.Len(t, runs, 1)
	require.Contains(t, []client.RunState{client.RunLost, client.RunUnknown}, runs[0].State, "%+v", runs[0])
	r.awaitDestroyed(begun.Container)
}

// When a pod is removed by any means and at any time, Hostler's records are
// correct soon after, and the pool is filled again.
func TestPodRemoved(t *testing.T) {
	t.Parallel()
	requireBackend(t, kubernetesBackend{})
	s := serve(t, kubernetesBackend{})
	hang := "hooks: { post_claim: [{ name: hang, command: [BOX, hang, MARKER], timeout: 60s }] }\n"
	show := "hooks: { pre_release: [{ command: [BOX, echo] }] }\n"
	t.Run("while", func(t *testing.T) {
		for when, test := range map[string]struct {
			hooks string
			do    func(*podRemoval)
		}{"idle": {"", (*podRemoval).whileIdle}, "held": {show, (*podRemoval).whileClaimed}, "hooked": {hang, (*podRemoval).whileHookRuns}} {
			for how := range removals() {
				t.Run(when+"/"+how, func(t *testing.T) {
					t.Parallel()
					mine := *s
					mine.t = t
					r := &podRemoval{s: &mine, id: when + "-" + how, how: how, marker: when + "-" + uuid.NewString()[:8]}
					mine.apply(r.id, withMarker("pool: { min_idle: 1, max_size: 2, reuse: wipe }\n"+test.hooks, r.marker))
					test.do(r)
					mine.releaseAll(r.id)
					mine.deleteWorkload(r.id)
				})
			}
		}
	})
	s.requireEnds()
	s.requireNothingLeft()
}

// The pool reports the registry's error, in the node's words.
func TestImagePullError(t *testing.T) {
	t.Parallel()
	requireBackend(t, kubernetesBackend{})
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="the test"`)
		http.Error(w, "members only", http.StatusUnauthorized)
	}))
	t.Cleanup(closed.Close)
	s := serve(t, kubernetesBackend{})
	for id, test := range map[string]struct{ image, want string }{
		"missing": {images(t).nothing, "not found"},
		"closed":  {strings.TrimPrefix(closed.URL, "http://") + "/secret:1", "401 Unauthorized"},
	} {
		text := fmt.Sprintf("id: %s\nimage: %s\ncommand: [/x]\nuser: '1:1'\npool: { min_idle: 1, max_size: 1 }\n", id, test.image)
		_, err := s.Apply(t.Context(), id, []byte(text))
		require.NoError(t, err)
		require.Contains(t, s.awaitEvent(eventsOf(id, client.EventPoolWarning), 1).Message, test.want)
		output := s.mustCLI("get", "pools", "-o", "yaml")
		require.Contains(t, output, test.image)
		require.Contains(t, output, test.want)
		s.deleteWorkload(id)
	}
	s.requireNothingLeft()
}

// A pod that no node accepts is discarded after a timeout with the scheduler's
// message, and the pool retries.
func TestUnschedulablePod(t *testing.T) {
	t.Parallel()
	requireBackend(t, kubernetesBackend{})
	s := install(t, kubernetesBackend{})
	newFrontend(t, s, func(_ int, w http.ResponseWriter, r *http.Request) bool {
		err := changePod(r, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"nowhere": "true"} })
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
		return err != nil
	})
	s.start()
	s.apply("unscheduled", "pool: { min_idle: 1, max_size: 1 }\n")
	warning := s.awaitEvent(eventsOf("unscheduled", client.EventPoolWarning), 1)
	require.Contains(t, warning.Message, "nodes are available")
	require.Contains(t, warning.Message, "didn't match Pod's node affinity/selector")
	require.Contains(t, s.mustCLI("get", "pools", "-o", "yaml"), "nodes are available")
	s.deleteWorkload("unscheduled")
	s.requireNothingLeft()
}

// If the API server is overloaded or fails occasionally, calls take longer but
// succeed.
func TestThrottledAPIServer(t *testing.T) {
	t.Parallel()
	requireBackend(t, kubernetesBackend{})
	s := install(t, kubernetesBackend{})
	refusals := map[int]func(w http.ResponseWriter){
		1: func(w http.ResponseWriter) { respondError(w, http.StatusTooManyRequests, "TooManyRequests", 1) },
		4: func(w http.ResponseWriter) { respondError(w, http.StatusInternalServerError, "InternalError", 0) },
		6: func(w http.ResponseWriter) { respondError(w, http.StatusServiceUnavailable, "ServiceUnavailable", 1) },
		8: func(w http.ResponseWriter) { respondError(w, http.StatusGatewayTimeout, "Timeout", 0) },
	}
	f := newFrontend(t, s, func(n int, w http.ResponseWriter, _ *http.Request) bool {
		refuse, ok := refusals[n%10]
		if ok {
			refuse(w)
		}
		return ok
	})
	s.start()
	s.apply("crowd", fmt.Sprintf(crowdHooks, maxContainers))
	var g errgroup.Group
	for i := range 20 {
		g.Go(func() error { return s.claimTwiceAndRelease(t.Context(), fmt.Sprintf("tenant-%d", i)) })
	}
	require.NoError(t, g.Wait())
	requireOneTenantEach(t, s.events(eventsOf("crowd", "container")))
	require.Greater(t, len(f.since(0)), 10)
	s.deleteWorkload("crowd")
	s.requireEnds()
	s.requireNothingLeft()
}

// A warm claim with a hook sends no request to the API server, so its duration
// does not depend on the load of the cluster.
func TestWarmClaimNeedsNoAPIServer(t *testing.T) {
	t.Parallel()
	requireBackend(t, kubernetesBackend{})
	s := install(t, kubernetesBackend{})
	f := newFrontend(t, s, nil)
	s.start()
	s.apply("warm", "pool: { min_idle: 3, max_size: 3 }\nhooks: { post_claim: [{ command: [BOX, echo, hi] }] }\n")
	s.awaitEvent(eventsOf("warm", client.EventContainerCreated), 3)
	before := f.awaitQuiet(t)
	require.NotZero(t, before)
	for _, tenant := range []string{"ada", "bob", "cleo"} {
		c, created, err := s.Claim(t.Context(), "warm", tenant, 0)
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, client.RunSucceeded, c.Hooks[0].State)
	}
	asked := slices.DeleteFunc(f.since(before), func(r string) bool {
		return strings.Contains(r, "/pods?") || strings.HasSuffix(r, "/pods/hostler-"+uuid.Nil.String())
	})
	require.Empty(t, asked, "except for the comparison of engine and database, and the question whether the engine responds")
}
