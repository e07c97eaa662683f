package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A user that could not enter a container's directory is refused when the workload
// is applied, and not when its program starts.
func TestUserThatCannotEnter(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.MkdirAll(filepath.Join(data, "process"), 0o755))
	r := &Runtime{dir: filepath.Join(data, "process")}
	for _, mode := range []os.FileMode{0o700, 0o755} {
		require.NoError(t, os.Chmod(data, mode))
		for _, user := range []string{"", "0", "root:1000"} {
			require.NoError(t, r.Check(t.Context(), runtime.Spec{User: user}))
		}
		err := r.Check(t.Context(), runtime.Spec{User: "4321:1000"})
		if mode == 0o755 && closedDirectory(filepath.Dir(data)) == "" {
			require.NoError(t, err)
			continue
		}
		var invalid *runtime.SpecError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "user", invalid.Field)
		if mode == 0o700 {
			require.Contains(t, invalid.Reason, data+" is closed to other users")
		}
	}
}
