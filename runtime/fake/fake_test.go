package fake_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var createdSpecs atomic.Int64

func newSpec() runtime.Spec {
	return runtime.Spec{
		ID:      fmt.Sprint("c", createdSpecs.Add(1)),
		Command: []string{fake.TestprogPath, "idle"},
		Workdir: "/data",
		Volumes: []runtime.Volume{{Name: "data", Target: "/data"}},
	}
}

// startContainer starts a container that runs the test program.
func startContainer(t testing.TB, rt *fake.Runtime) string {
	t.Helper()
	spec := newSpec()
	require.NoError(t, rt.Create(t.Context(), spec))
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
	return spec.ID
}

func execTestprog(args ...string) runtime.Command {
	return runtime.Command{Args: append([]string{"box"}, args...)}
}

// The fake meets the contract of every backend.
func TestRuntimeContract(t *testing.T) {
	rt := fake.New()
	runtimetest.Run(t, runtimetest.Harness{
		New:         func(*testing.T) runtime.Runtime { return rt },
		Reopen:      func(*testing.T) runtime.Runtime { return rt },
		Spec:        func(*testing.T) runtime.Spec { return newSpec() },
		Limitations: runtimetest.Limitations{NoKernel: true},
		Tamper: func(t *testing.T, _ runtime.Runtime, spec runtime.Spec, protocol string) {
			require.NoError(t, rt.Create(t.Context(), spec))
			require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
			rt.SetRecordedProtocol(spec.ID, protocol)
			t.Cleanup(func() { rt.RemoveExternally(spec.ID) })
		},
		CreateForeign: func(*testing.T) string {
			rt.AddForeign("theirs")
			return "theirs"
		},
	})
}
