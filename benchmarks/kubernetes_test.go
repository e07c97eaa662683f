package benchmarks

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/internal/required"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// spare is how many containers are ready for a burst on Kubernetes: a few more
// than tenants come.
const spare = burst + 5

// BenchmarkKubernetesWarmClaim is a claim with one hook of a fresh idle pod,
// one after another, and the same on Docker in the same run.
func BenchmarkKubernetesWarmClaim(b *testing.B) {
	pods, ref := node(b)
	b.Run("kubernetes", func(b *testing.B) { warm(b, pods, ref, 1) })
	b.Run("docker", func(b *testing.B) {
		rt, image := engine(b)
		warm(b, rt, image, 1)
	})
}

// BenchmarkKubernetesBurst is twenty tenants at once on twenty-five idle pods,
// and the same on Docker in the same run.
func BenchmarkKubernetesBurst(b *testing.B) {
	pods, ref := node(b)
	b.Run("kubernetes", func(b *testing.B) { crowd(b, pods, ref, spare, "echo", "hi") })
	b.Run("docker", func(b *testing.B) {
		rt, image := engine(b)
		crowd(b, rt, image, spare, "echo", "hi")
	})
}

// onNode is the node's backend and what its pods run, once a benchmark has
// needed them.
var onNode struct {
	rt    *kubernetes.Runtime
	image string
}

// node connects to the cluster, or skips.
func node(b *testing.B) (*kubernetes.Runtime, string) {
	b.Helper()
	if onNode.rt != nil {
		return onNode.rt, onNode.image
	}
	c, err := clustertest.Find()
	if err != nil {
		required.Missing(b, "kubernetes", "no Kubernetes cluster answers: %v", err)
	}
	name := "bench-" + uuid.NewString()[:8]
	require.NoError(b, c.MakeNamespace(b.Context(), name))
	r := clustertest.Serve()
	cleaners = append(cleaners, func(ctx context.Context) error {
		r.Close()
		return c.RemoveNamespace(ctx, name)
	})
	shim, err := r.Push(name+"/hostler:1", map[string]string{"usr/local/bin/hostler-shim": runtimetest.BuildShim(b)})
	require.NoError(b, err)
	box, err := r.Push(name+"/box:1", map[string]string{"box": runtimetest.BuildBox(b)})
	require.NoError(b, err)
	rt, err := kubernetes.New(kubernetes.Options{
		Instance: name, Secret: []byte("of the benchmarks"), ShimImage: shim,
		Kubeconfig: c.Kubeconfig(), Namespace: name,
	})
	require.NoError(b, err)
	cleaners = append(cleaners, func(context.Context) error { return rt.Close() })
	onNode.rt, onNode.image = rt, box
	return rt, box
}
