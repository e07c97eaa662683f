package kubernetes_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// The backend meets the contract, on a real node.
func TestRuntimeContract(t *testing.T) {
	needCluster(t)
	runtimetest.Run(t, runtimetest.Harness{
		New:    func(t *testing.T) runtime.Runtime { return openRuntime(t) },
		Reopen: func(t *testing.T) runtime.Runtime { return openRuntime(t) },
		Spec:   func(t *testing.T) runtime.Spec { return newSpec(t) },
		CreateForeign: func(t *testing.T) string {
			id := uuid.NewString()
			createForeign(t, id)
			return id
		},
		Tamper: func(t *testing.T, rt runtime.Runtime, spec runtime.Spec, protocol string) {
			require.NoError(t, rt.Create(t.Context(), spec))
			require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
			tamper(t, spec.ID, protocol)
			t.Cleanup(func() {
				if _, err := rt.Status(context.Background(), spec.ID); err == nil {
					tamper(t, spec.ID, rt.Protocols().Format())
				}
				runtimetest.Destroy(t, rt, spec.ID)
			})
		},
		Rotates: []string{"files", "trees", "tenant files", "requests", "commands"},
	})
}

// The backend meets the contract where the cluster admits no root, except for what
// needs root.
func TestRuntimeContractNonRoot(t *testing.T) {
	testenv.FullOnly(t, "non-root", "the contract without root")
	namespace := createSecuredNamespace(t, "restricted")
	bound := func(o *kubernetes.Options) { o.Namespace, o.NonRoot = namespace, true }
	runtimetest.Run(t, runtimetest.Harness{
		New:    func(t *testing.T) runtime.Runtime { return openRuntime(t, bound) },
		Reopen: func(t *testing.T) runtime.Runtime { return openRuntime(t, bound) },
		Spec: func(t *testing.T) runtime.Spec {
			spec := newSpec(t)
			spec.User = "1000:1000"
			return spec
		},
		Limitations: runtimetest.Limitations{SingleUser: true},
	})
}

// tamper changes the version in a pod's record; empty removes it.
func tamper(t *testing.T, id, protocol string) {
	t.Helper()
	note := map[string]any{"hostler.protocol": protocol}
	if protocol == "" {
		note["hostler.protocol"] = nil
	}
	change := map[string]any{"metadata": map[string]any{"annotations": note}}
	require.NoError(t, needCluster(t).Do(context.Background(), http.MethodPatch, pod(id), change, nil))
}

// createForeign creates a pod with the name that ours would have, and with the
// labels of another instance.
func createForeign(t *testing.T, id string) {
	t.Helper()
	c := needCluster(t)
	require.NoError(t, c.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/"+run+"/pods", fmt.Sprintf(`{
		"metadata": {"name": "hostler-%s", "labels": {
			"hostler.managed": "true", "hostler.instance": "another", "hostler.container": "%s"}},
		"spec": {"terminationGracePeriodSeconds": 0, "containers": [
			{"name": "main", "image": "%s", "command": ["/box", "idle"]}]}}`, id, id, testImages(t).testprog), nil))
	t.Cleanup(func() { require.NoError(t, c.Do(context.Background(), http.MethodDelete, pod(id), nil, nil)) })
}
