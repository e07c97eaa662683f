package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// A directory is applied whole or not at all, a workload after the one that it
// copies hooks from.
func TestApplyDirectory(t *testing.T) {
	serveTestBackend(t)
	writeFiles(t, map[string]string{
		"all/a.yaml":    "id: a\nimage: x\nhooks_from: b\n",
		"all/b.yaml":    "id: b\nimage: x\n",
		"twice/a.yaml":  "id: new\nimage: x\n",
		"twice/b.yaml":  "id: new\nimage: y\n",
		"broken/a.yaml": "id: new\nimage: x\n",
		"broken/b.yaml": "id: [\n",
		"empty/x.txt":   "",
	})
	code, out, errOut := hostler(t, "", "apply", "-f", "all")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "workload b created", out[:len("workload b created")])
	require.Contains(t, out, "workload a created")

	for dir, want := range map[string]string{
		"twice": "twice/b.yaml:1:5: id: is also that of twice/a.yaml", "broken": "broken/b.yaml:", "empty": "has no workload files",
	} {
		code, out, errOut = hostler(t, "", "apply", "-f", dir)
		require.Equal(t, exitFailure, code, dir)
		require.Empty(t, out, dir)
		require.Contains(t, errOut, want)
	}
	code, out, _ = hostler(t, "", "get", "workloads")
	require.Equal(t, exitOK, code)
	require.NotContains(t, out, "new")

	var list []client.AppliedWorkload
	_, out, _ = hostler(t, "", "apply", "-f", "all", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 2)
	var one client.AppliedWorkload
	_, out, _ = hostler(t, "", "apply", "-f", "all/b.yaml", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &one))
	require.Equal(t, "b", one.ID)
}

// A dry run and diff show what would change and which containers would be
// replaced, and change nothing.
func TestDiff(t *testing.T) {
	serveTestBackend(t)
	writeFiles(t, map[string]string{
		"a.yaml": "id: a\nimage: x\npool: {min_idle: 1}\n", "b.yaml": "id: a\nimage: y\npool: {min_idle: 1, max_size: 5}\n",
	})
	code, out, errOut := hostler(t, "", "apply", "--dry-run", "-f", "a.yaml")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "workload a would be created (revision ")
	code, _, _ = hostler(t, "", "get", "workloads", "a")
	require.Equal(t, exitNotFound, code)

	code, _, errOut = hostler(t, "", "apply", "-f", "a.yaml")
	require.Equal(t, exitOK, code, errOut)
	code, out, _ = hostler(t, "", "diff", "--exit-code", "-f", "a.yaml")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, "workload a would be unchanged")
	for range 2 {
		code, out, _ = hostler(t, "", "diff", "--exit-code", "-f", "b.yaml")
		require.Equal(t, exitFailure, code)
		require.Contains(t, out, "workload a would be changed (revision ")
		require.Contains(t, out, `  ~ image: "x" -> "y"`)
		require.Contains(t, out, "  + pool.max_size: 5")
		require.Contains(t, out, "  would replace containers: 1 idle once new ones are ready: its revision is outdated (image)")
		require.NotContains(t, out, "min_idle")
	}
	code, _, _ = hostler(t, "", "diff", "-f", "b.yaml")
	require.Equal(t, exitOK, code)
}
