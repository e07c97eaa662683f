package kubernetes_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The pod has nothing of the environment of a claim.
func TestEnvironmentIsNotInPod(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt)
	const value = "a-value-of-a-tenant"
	require.NoError(t, rt.RestartWith(t.Context(), id, 2, map[string]string{"TOKEN": value}))
	var found json.RawMessage
	require.NoError(t, needCluster(t).Do(t.Context(), http.MethodGet, pod(id), nil, &found))
	require.Contains(t, string(found), "hostler-"+id)
	require.NotContains(t, string(found), value)
}
