package lint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A script is found in each place where a shell takes one from: in $0, in positional
// parameters, behind letters of other options, and in variables that it expands first.
func TestPlacesOfScripts(t *testing.T) {
	for _, args := range [][]string{
		{"sh", "-c", "$0", "rm -rf /x"}, {"sh", "-c", `eval "$0"`, "rm -rf /x"}, {"sh", "-c", `set rm -rf /x; "$@"`},
		{"script", "-qc", "rm -rf /x", "/dev/null"}, {"script", "-qec", "rm -rf /x"}, {"script", "-crm -rf /x"}, {"su", "-lc", "rm -rf /x"},
		{"sh", "-c", "coproc rm -rf /x"}, {"csh", "-c", "rm -rf /x"}, {"tcsh", "-c", "rm -rf /x"},
	} {
		_, found := Destructive(args, nil)
		require.True(t, found, args)
	}
	for _, args := range [][]string{{"script", "-q", "log"}, {"su", "-l", "ada"}, {"sh", "-c", "ls $0", "x"}, {"sh", "-c", "set -e; ls"}, {"sh", "-c", "set"}, {"sh", "-c", `set "$x"; ls`}, {"sh", "-c", `set ""; ls`}} {
		reason, found := Destructive(args, nil)
		require.False(t, found, "%s: %s", args, reason)
	}
	for _, name := range []string{"BASH_ENV", "ENV", "PS4"} {
		_, found := Destructive([]string{"bash", "-c", "ls"}, map[string]string{name: "/x (a $(rm -rf /x)'"})
		require.True(t, found, name)
		reason, found := Destructive([]string{"bash", "-c", "ls"}, map[string]string{name: `$HOME/it's (mine) rm -rf /x "`})
		require.False(t, found, reason)
	}
}
