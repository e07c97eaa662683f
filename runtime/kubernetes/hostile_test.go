package kubernetes_test

import (
	"fmt"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// No tenant affects the next one, on a real node.
func TestHostile(t *testing.T) {
	needCluster(t)
	runtimetest.RunHostile(t, "kubernetes", runtimetest.Harness{
		New:          func(t *testing.T) runtime.Runtime { return openRuntime(t) },
		AttackedSpec: attackedSpec,
		Sample:       4,
	})
}

// No tenant affects the next one where the cluster admits no root: there, tenants
// and the shim are the same user.
func TestHostileNonRoot(t *testing.T) {
	testenv.FullOnly(t, "non-root", "attacks without root")
	needCluster(t)
	namespace := createSecuredNamespace(t, "restricted")
	bound := func(o *kubernetes.Options) { o.Namespace, o.NonRoot = namespace, true }
	runtimetest.RunHostile(t, "kubernetes-non-root", runtimetest.Harness{
		New:          func(t *testing.T) runtime.Runtime { return openRuntime(t, bound) },
		AttackedSpec: attackedSpec,
		Sample:       4,
		Limitations:  runtimetest.Limitations{SingleUser: true},
	})
}

// attackedImages are created once: their registry ends with this process.
var attackedImages sync.Map // of func() (string, error), by user

func attackedSpec(t *testing.T, user int) runtime.Spec {
	once, _ := attackedImages.LoadOrStore(user, sync.OnceValues(func() (string, error) {
		name := fmt.Sprintf("%s/attacked-%d:1", run, user)
		return clustertest.NewRegistry().PushRootfs(name, v1.Config{}, runtimetest.AttackedRootfs(t, user))
	}))
	image, err := once.(func() (string, error))()
	require.NoError(t, err)
	spec := newSpec(t)
	spec.Image = image
	return spec
}
