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
