package benchmarks

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// idlePods is the number of idle pods for a burst on Kubernetes, a few more
// than tenants.
const idlePods = burstSize + 5

// BenchmarkKubernetesWarmClaim measures sequential claims with one hook of a
// fresh idle pod, and the same on Docker in the same run.
func BenchmarkKubernetesWarmClaim(b *testing.B) {
	pods, ref := connectKubernetes(b)
	b.Run("kubernetes", func(b *testing.B) { benchWarmClaim(b, pods, ref, 1) })
	b.Run("docker", func(b *testing.B) {
		rt, image := connectDocker(b)
		benchWarmClaim(b, rt, image, 1)
	})
}

// BenchmarkKubernetesBurst measures twenty concurrent tenants on twenty-five
// idle pods, and the same on Docker in the same run.
func BenchmarkKubernetesBurst(b *testing.B) {
	pods, ref := connectKubernetes(b)
	b.Run("kubernetes", func(b *testing.B) { benchBurst(b, pods, ref, idlePods, "echo", "hi") })
	b.Run("docker", func(b *testing.B) {
		rt, image := connectDocker(b)
		benchBurst(b, rt, image, idlePods, "echo", "hi")
	})
}

// BenchmarkKubernetesExec compares a command through the API with the same command in
// the same pod by the API server's exec, in both its protocols, in turn, and the
// command lines of both; then with 16 callers at once of each.
func BenchmarkKubernetesExec(b *testing.B) {
	_, image := connectKubernetes(b)
	u := claimUsed(b, startServer(b, buildServer(b), kubernetesRuntime.serverFlags...), image, "[/box, idle]", 1)[0]
	c, namespace := kubernetesRuntime.cluster, kubernetesRuntime.namespace
	subresource := func(protocol clustertest.ExecProtocol) func() error {
		return func() error {
			return c.Exec(b.Context(), protocol, namespace, u.container, "workload", "/box", "echo", "hi")
		}
	}
	calls := map[string]func() error{
		"api":       func() error { return u.run(b.Context()) },
		"websocket": subresource(clustertest.ExecWebSocket),
		"spdy":      subresource(clustertest.ExecSPDY),
	}
	b.Run("load", func(b *testing.B) {
		const callers, each = 16, 10
		took := map[string][]time.Duration{}
		for b.Loop() {
			for name, call := range calls {
				took[name] = append(took[name], timed(b, func() error { return callConcurrently(callers, each, call) }))
			}
		}
		for name, all := range took {
			b.ReportMetric(float64(callers*each*len(all))/total(all).Seconds(), name+"/s")
		}
	})
	calls["cli"] = func() error { return u.line(b.Context(), "exec", u.claim, "--", "/box", "echo", "hi").Run() }
	if kubectl, err := exec.LookPath("kubectl"); err == nil {
		args := []string{"--kubeconfig", c.Kubeconfig(), "--namespace", namespace, "exec", u.container, "--container", "workload", "--", "/box", "echo", "hi"}
		calls["kubectl"] = func() error { return exec.CommandContext(b.Context(), kubectl, args...).Run() }
	}
	b.Run("one", func(b *testing.B) {
		took := map[string][]time.Duration{}
		for b.Loop() {
			for name, call := range calls {
				took[name] = append(took[name], timed(b, call))
			}
		}
		for name, all := range took {
			b.ReportMetric(ms(quantile(all, .5)), name+"-p50-ms")
		}
		for name, than := range map[string]string{"websocket": "api", "spdy": "api", "kubectl": "cli"} {
			if all := took[name]; len(all) > 0 {
				b.ReportMetric(float64(quantile(all, .5))/float64(quantile(took[than], .5)), name+"/"+than)
			}
		}
	})
}

// kubernetesRuntime is the Kubernetes backend and the image of its pods, set by
// the first benchmark that needs them.
var kubernetesRuntime struct {
	rt          *kubernetes.Runtime
	image       string
	cluster     *clustertest.Cluster
	namespace   string
	serverFlags []string // of a server on the same backend
}

// connectKubernetes connects to the cluster, or skips.
func connectKubernetes(b *testing.B) (*kubernetes.Runtime, string) {
	b.Helper()
	if kubernetesRuntime.rt != nil {
		return kubernetesRuntime.rt, kubernetesRuntime.image
	}
	c, err := clustertest.Find()
	if err != nil {
		testenv.Skip(b, "kubernetes", "no Kubernetes cluster available: %v", err)
	}
	name := "bench-" + uuid.NewString()[:8]
	require.NoError(b, c.MakeNamespace(b.Context(), name))
	r := clustertest.NewRegistry()
	cleanups = append(cleanups, func(ctx context.Context) error {
		r.Close()
		return c.RemoveNamespace(ctx, name)
	})
	shim, err := r.Push(name+"/hostler:1", map[string]string{"usr/local/bin/hostler-shim": runtimetest.BuildShim(b)})
	require.NoError(b, err)
	testImage, err := r.Push(name+"/box:1", map[string]string{"box": runtimetest.BuildTestprog(b)})
	require.NoError(b, err)
	rt, err := kubernetes.New(kubernetes.Options{
		Instance: name, Secret: []byte("of the benchmarks"), ShimImage: shim,
		Kubeconfig: c.Kubeconfig(), Namespace: name,
	})
	require.NoError(b, err)
	cleanups = append(cleanups, func(context.Context) error { return rt.Close() })
	kubernetesRuntime.rt, kubernetesRuntime.image = rt, testImage
	kubernetesRuntime.cluster, kubernetesRuntime.namespace = c, name
	kubernetesRuntime.serverFlags = []string{"--runtime", "kubernetes", "--kubeconfig", c.Kubeconfig(), "--namespace", name, "--shim-image", shim}
	return rt, testImage
}
