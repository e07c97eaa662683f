package process

import (
	"os/exec"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// BenchmarkExec compares a command through an open session with a fork and
// exec of the same program by this process. The ratio of the two is relevant:
// a hook should cost a fork.
func BenchmarkExec(b *testing.B) {
	dir := newDir(b)
	testprog := copyTestprog(b, dir)
	b.Run("session", func(b *testing.B) {
		rt := openRuntime(b, dir+"/data")
		spec := runtime.Spec{ID: "bench", Command: []string{testprog, "idle"}}
		require.NoError(b, rt.Create(b.Context(), spec))
		defer func() { require.NoError(b, rt.Destroy(b.Context(), spec.ID)) }()
		require.NoError(b, rt.Start(b.Context(), spec.ID, 1))
		for b.Loop() {
			result, err := rt.Exec(b.Context(), spec.ID, runtime.Command{Args: []string{"/bin/true"}})
			if err != nil || !result.OK() {
				b.Fatal(result, err)
			}
		}
	})
	b.Run("fork", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRestart measures a complete restart of a container's main process.
func BenchmarkRestart(b *testing.B) {
	dir := newDir(b)
	rt := openRuntime(b, dir+"/data")
	spec := runtime.Spec{ID: "bench", Command: []string{copyTestprog(b, dir), "idle"}}
	require.NoError(b, rt.Create(b.Context(), spec))
	defer func() { require.NoError(b, rt.Destroy(b.Context(), spec.ID)) }()
	require.NoError(b, rt.Start(b.Context(), spec.ID, 1))
	for b.Loop() {
		require.NoError(b, rt.Restart(b.Context(), spec.ID, 1))
	}
}
