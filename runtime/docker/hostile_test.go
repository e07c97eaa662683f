package docker_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/gvisortest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// imageAttacked returns the image whose program belongs to a user.
func imageAttacked(user int) string { return fmt.Sprintf("%s/attacked:%d", instance, user) }

// No tenant affects the next one, on the engine of this machine.
func TestHostile(t *testing.T) {
	needEngine(t)
	runHostile(t, "docker", "", 2, runtimetest.Limitations{})
}

// No tenant affects the next one under gVisor.
func TestHostileGVisor(t *testing.T) {
	host := gvisortest.Host(t)
	runHostile(t, "gvisor", host, 4, runtimetest.Limitations{WipeUnverifiable: true})
}

func runHostile(t *testing.T, name, host string, sample int, limitations runtimetest.Limitations) {
	importImages(t, host) // its cleanup removes this one as well
	at := func(o *docker.Options) { o.Host = host }
	rt := connect(t, at)
	for _, user := range []int{0, 1001} {
		require.NoError(t, rt.Import(t.Context(), imageAttacked(user), bytes.NewReader(runtimetest.AttackedRootfs(t, user))))
	}
	runtimetest.RunHostile(t, name, runtimetest.Harness{
		New: func(t *testing.T) runtime.Runtime { return connect(t, at) },
		AttackedSpec: func(_ *testing.T, user int) runtime.Spec {
			spec := newSpec()
			spec.Image, spec.Networks = imageAttacked(user), []string{"none"}
			return spec
		},
		Sample:      sample,
		Limitations: limitations,
	})
}
