package e2e

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A trial on an engine runs each hook once, and leaves nothing there.
func TestTryOnEngines(t *testing.T) {
	t.Parallel()
	forEachEngine(t, func(t *testing.T, rt backend) {
		id := "trial-" + uuid.NewString()[:8]
		file := filepath.Join(t.TempDir(), "workload.yaml")
		require.NoError(t, os.WriteFile(file, []byte(workload(t, rt, id, `
pool: { min_idle: 2, max_size: 5, reuse: wipe }
hooks:
  post_create: [{ name: warm, command: [BOX, echo, warmed] }]
  post_claim: [{ name: greet, command: [BOX, echo, greeted] }]
  pre_release: [{ name: flush, command: [BOX, echo, flushed] }]
  pre_destroy: [{ name: leave, command: [BOX, echo, left] }]
`)), 0o600))
		args := append([]string{"try", "--runtime", rt.name(), "--data", filepath.Join(t.TempDir(), "trials"), file}, rt.args(t)...)
		got := hostler(t, environment(), "", args...)
		require.Zero(t, got.code, "%s%s", got.out, got.err)
		for _, printed := range []string{"warm | warmed", "greet | greeted", "flush | flushed", "leave | left"} {
			require.Regexp(t, ` `+`\Q`+printed+`\E`+"\n", got.out)
		}
		require.Contains(t, got.out, "all of it succeeded, and everything is removed")
		require.Empty(t, leftOfWorkload(t, rt, id))
	})
}

// leftOfWorkload returns the containers of a workload of any installation.
func leftOfWorkload(t *testing.T, rt backend, id string) (names []string) {
	t.Helper()
	if rt.name() == "docker" {
		var all []struct{ Names []string }
		engineGet(t, filtered("/containers/json?all=1&", "label", "hostler.workload="+id), &all)
		for _, c := range all {
			names = append(names, c.Names...)
		}
		return names
	}
	var all struct{ Items []pod }
	askCluster(t, http.MethodGet, "/api/v1/pods?labelSelector="+url.QueryEscape("hostler.workload="+id), nil, &all)
	for _, p := range all.Items {
		names = append(names, p.Metadata.Name)
	}
	return names
}
