package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example services have no errors and no notes, also where what they need to run
// is missing. Each that has a README is in the list of them.
func TestExampleServicesAreStrict(t *testing.T) {
	services, err := filepath.Glob("../../examples/*/README.md")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(services), 5)
	list, err := os.ReadFile("../../docs/workload-file.md")
	require.NoError(t, err)
	for _, readme := range services {
		dir := filepath.Dir(readme)
		code, out, errOut := hostler(t, "", "validate", "--strict", "--verbose", dir)
		require.Equal(t, exitOK, code, "%s%s", out, errOut)
		require.Contains(t, out, filepath.Join(dir, "workload.yaml")+": valid")
		require.Contains(t, string(list), "(../examples/"+filepath.Base(dir)+")", "docs/workload-file.md lists it")
	}
}
