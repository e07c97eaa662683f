package kubernetes

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

const notes = `healthcheck: { test: [CMD, /usr/local/bin/hostler, demo-app, check], interval: 5s }
pool: { min_idle: 1, max_size: 3, reuse: wipe }
hooks:
  post_create: [{ name: warm, command: [/usr/local/bin/hostler, demo-app, warm] }]
  post_claim: [{ name: migrate, command: [/usr/local/bin/hostler, demo-app, migrate], on_error: fail }]
  pre_release: [{ name: flush, command: [/usr/local/bin/hostler, demo-app, flush], on_error: continue }]
  pre_destroy: [{ name: deregister, command: [/usr/local/bin/hostler, demo-app, deregister], on_error: continue }]
`

// Installed with the chart, the server complies with the strictest Pod Security
// level and serves tenants with the chart's rights, in a namespace for containers.
// Claims survive a restart of its pod, an upgrade and a reinstallation.
func TestInstall(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	requireHelm(t)
	containerNamespace := c.namespace(t, "baseline")
	i := install(t, c, c.namespace(t, "restricted"), containerNamespace, fmt.Sprintf(
		"store: { sqlite: { storageClass: %s } }\nworkloads: { namespace: %s }\n", c.volume(t), containerNamespace))

	require.Equal(t, 200, i.status("/healthz"))
	require.Equal(t, 401, i.status("/v1/claims"), "without a key")
	require.Equal(t, 401, i.status("/metrics"), "without a key")

	i.apply("notes", workload(t, "notes", notes))
	held := i.checkLifecycle("notes")
	i.replace(held, func() {
		i.c.mustDo(t, "DELETE", "/api/v1/namespaces/"+i.namespace+"/pods/"+i.server.Metadata.Name, nil, nil)
	})
	key := i.key
	i.replace(held, func() {
		i.helm("upgrade", "hostler", chart, "--reuse-values", "--set", "logLevel=debug")
	})
	require.Equal(t, key, i.key, "the generated key is kept")
	i.replace(held, func() {
		i.helm("uninstall", "hostler", "--wait", "--cascade", "foreground")
		i.install()
	})
	i.release(held)
	i.remove("notes")
}

// Server and containers run in one namespace of the strictest level, in which no
// process may be root. The workload files are part of the release.
func TestInstallRestricted(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	requireHelm(t)
	namespace := c.namespace(t, "restricted")
	file := workload(t, "notes", notes)
	i := install(t, c, namespace, namespace, fmt.Sprintf(
		"store: { sqlite: { persistent: false } }\nworkloads: { nonRoot: true, files: { notes.yaml: %q } }\n", file))
	i.awaitIdle("notes")
	i.release(i.checkLifecycle("notes"))
	i.remove("notes")
}

// checkLifecycle claims for a tenant, and checks the claim and its container.
func (i *installation) checkLifecycle(id string) client.Claim {
	t := i.t
	t.Helper()
	c, created, err := i.Claim(t.Context(), id, "ada", waitTimeout)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, client.ClaimActive, c.State)
	require.NotEmpty(t, c.Endpoint.Host, "the address of the container")
	require.Equal(t, []string{"post_claim/migrate/succeeded"}, i.runs(c.ID))
	pods, err := i.c.pods(t.Context(), i.containerNamespace, "hostler.container="+c.Container)
	require.NoError(t, err)
	require.Len(t, pods, 1, "it is a pod of the containers' namespace")
	require.Equal(t, c.Endpoint.Host, pods[0].Status.PodIP)
	return c
}

// runs returns the hook runs of a claim with their states.
func (i *installation) runs(id string) []string {
	i.t.Helper()
	runs, err := i.Runs(i.t.Context(), client.RunFilter{Claim: id})
	require.NoError(i.t, err)
	var all []string
	for _, r := range runs {
		all = append(all, fmt.Sprintf("%s/%s/%s", r.Point, r.Hook, r.State))
	}
	return all
}

// replace calls how, which replaces the server while a claim is active. The next
// server has the same claim on the same container, and runs no hook again.
func (i *installation) replace(held client.Claim, how func()) {
	t := i.t
	t.Helper()
	before, err := i.c.pods(t.Context(), i.containerNamespace, "hostler.container="+held.Container)
	require.NoError(t, err)
	old := i.server.Metadata.UID
	how()
	i.await(old)

	again, created, err := i.Claim(t.Context(), held.Workload, held.Tenant, 0)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, held.ID, again.ID)
	require.Equal(t, held.Container, again.Container)
	require.Equal(t, []string{"post_claim/migrate/succeeded"}, i.runs(held.ID))
	after, err := i.c.pods(t.Context(), i.containerNamespace, "hostler.container="+held.Container)
	require.NoError(t, err)
	require.Equal(t, before[0].Metadata.UID, after[0].Metadata.UID, "it is the same pod")
}

// release releases a claim and checks its events.
func (i *installation) release(held client.Claim) {
	t := i.t
	t.Helper()
	c, err := i.Release(t.Context(), held.ID, false)
	require.NoError(t, err)
	require.Equal(t, client.ClaimReleased, c.State)
	require.Empty(t, c.Warnings)
	page, err := i.Events(t.Context(), client.EventQuery{EventFilter: client.EventFilter{Claim: held.ID}}, 1000)
	require.NoError(t, err)
	var seen []client.EventType
	for _, e := range page.Items {
		seen = append(seen, e.Type)
	}
	require.Subset(t, seen, []client.EventType{client.EventClaimActivated, client.EventHookCompleted, client.EventClaimReleased})
}
