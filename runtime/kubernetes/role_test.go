package kubernetes_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
)

// documentedRole returns the role that operators create as documented.
func documentedRole(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubernetes.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	require.True(t, found)
	role, _, _ := strings.Cut(rest, "```")
	require.Contains(t, role, "kind: Role")
	return role
}

// The permissions in the documentation are sufficient for all operations.
func TestDocumentedRole(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	ns, rbac := "/api/v1/namespaces/"+run, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+run
	post := func(path, object string, answer any) {
		require.NoError(t, c.Do(t.Context(), http.MethodPost, path, object, answer))
	}
	post(rbac+"/roles", documentedRole(t), nil)
	post(ns+"/serviceaccounts", `{"metadata": {"name": "hostler"}}`, nil)
	post(rbac+"/rolebindings", `{"metadata": {"name": "hostler"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hostler"},
		"subjects": [{"kind": "ServiceAccount", "name": "hostler"}]}`, nil)
	var answer struct{ Status struct{ Token string } }
	post(ns+"/serviceaccounts/hostler/token", `{"spec": {}}`, &answer)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "`+c.Config.Host+`", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: "`+answer.Status.Token+`"}}]
contexts: [{name: c, context: {cluster: c, user: u, namespace: "`+run+`"}}]
`), 0o600))
	rt := openRuntime(t, func(o *kubernetes.Options) { o.Kubeconfig, o.Namespace = file, "" })
	require.NoError(t, rt.Ping(t.Context()))
	id := startContainer(t, rt)
	exits := watchExits(t, rt, id)
	require.Equal(t, "hello\n", mustExec(t, rt, id, "/box", "echo", "hello"))
	require.NoError(t, rt.CopyIn(t.Context(), id, "/data", 0, strings.NewReader(string(rootfs(t, map[string]string{"file": "x"})))))
	testenv.AwaitTrue(t, "the log of the container", func() bool { return hasLogs(t, rt, id) })
	_, _ = rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "kill", "main", "TERM"}})
	awaitExit(t, exits)
	require.NoError(t, rt.Start(t.Context(), id, 1))
	require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
	require.NoError(t, rt.Wipe(t.Context(), id, 1))
	require.NoError(t, rt.Destroy(t.Context(), id))

	elsewhere := openRuntime(t, func(o *kubernetes.Options) { o.Kubeconfig, o.Namespace = file, "default" })
	require.ErrorIs(t, elsewhere.Ping(t.Context()), runtime.ErrUnavailable)
	require.ErrorContains(t, elsewhere.Ping(t.Context()), "forbidden")
}
