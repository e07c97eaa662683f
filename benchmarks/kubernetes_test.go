package benchmarks

import (
	"context"
	"testing"

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

// kubernetesRuntime is the Kubernetes backend and the image of its pods, set by
// the first benchmark that needs them.
var kubernetesRuntime struct {
	rt    *kubernetes.Runtime
	image string
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
	return rt, testImage
}
