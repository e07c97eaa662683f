package process

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// The process runtime rejects every Isolation setting, also at Create.
func TestCheckIsolation(t *testing.T) {
	t.Parallel()
	r := openRuntime(t, newDir(t))
	require.NoError(t, r.Check(t.Context(), runtime.Spec{}))
	for field, want := range map[string]runtime.Isolation{
		"runtime":      {Runtime: "runsc"},
		"security_opt": {SecurityOpt: []string{"apparmor=x"}},
		"userns_mode":  {UsernsMode: "host"},
		"network_mode": {NetworkMode: "none"},
	} {
		spec := runtime.Spec{ID: "c", Command: []string{"x"}, Isolation: want}
		require.ErrorContains(t, r.Check(t.Context(), spec), field)
		require.ErrorIs(t, r.Create(t.Context(), spec), runtime.ErrInvalid)
	}
}

// There are no images, and thus no hooks of one. The reason is a warning.
func TestNoImageHooks(t *testing.T) {
	t.Parallel()
	r := openRuntime(t, newDir(t))
	require.NoError(t, r.Create(t.Context(), runtime.Spec{ID: "c", Command: []string{"x"}}))
	found, err := r.ImageHooks(t.Context(), "c", []string{"post_start"}, 1)
	require.NoError(t, err)
	require.Empty(t, found.Hooks)
	require.Contains(t, found.Refused[0], "no image")
	require.NoError(t, r.Destroy(t.Context(), "c"))
}
