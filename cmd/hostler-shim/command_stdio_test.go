package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/shim"
)

// A command reads its whole input and then its end, whether the pipe holds it or
// not, and also if it starts late or reads nothing.
func TestInput(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, pipeRoom, pipeRoom + 1, 1 << 20} {
		input := strings.Repeat("x", size)
		for command, want := range map[string]string{
			"exec cat":                        input,
			"exec 3<&0; (exec cat <&3) | cat": input,
			"exit 0":                          "",
		} {
			result, err := runCommand(t, func(r *shim.Run) {
				r.Args, r.Stdin = []string{"/bin/sh", "-c", command}, []byte(input)
			})
			require.NoError(t, err)
			require.True(t, result.OK(), "%d bytes to %s: %+v", size, command, result)
			require.EqualValues(t, len(want), result.Stdout.Total, "%d bytes to %s", size, command)
		}
	}
}
