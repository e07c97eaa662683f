package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// waitingExample is a block of YAML with hooks at the points of a wait.
var waitingExample = regexp.MustCompile("(?ms)^```ya?ml\n(hooks:\n  (on_blocking_start|on_signal_received|on_blocking_timeout): .*?)^```")

// The examples of the document that the form comes from run as they are, with the
// programs of our example: around a wait that is signalled, and around one that is
// not. Not on the process runtime: some call git and pkill.
func TestWaitingExamplesOfOtherFormats(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HOSTLER_SEEDS")
	if dir == "" {
		testenv.Skip(t, "seeds", "HOSTLER_SEEDS is not set")
	}
	text, err := os.ReadFile(filepath.Join(dir, "cfn-agent-lifecycle-hooks.md"))
	require.NoError(t, err)
	examples := waitingExample.FindAllSubmatch(text, -1)
	require.NotEmpty(t, examples)
	forEachEngine(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		for i, example := range examples {
			id := fmt.Sprint("example-", i)
			_, err := s.Apply(t.Context(), id, []byte(inWaitingImage(t, rt, "id: "+id+"\nimage: example/waiting:1.0\nvolumes: { state: { target: /workspace } }\npool: { min_idle: 0, max_size: 1 }\n"+string(example[1]))))
			require.NoError(t, err, "%s", example[1])
			g := s.claimAs(id, "ada")
			end := g.waitInBackground("--type", "consensus", "--timeout", "60s", "--context", `{"task": "review", "iteration": 2, "phase": "auth"}`)
			s.awaitWait(g.ID, "", client.WaitWaiting)
			s.mustCLI("signal", g.ID, "--data", `{"action": "approved"}`)
			require.Equal(t, commandResult{out: `{"action":"approved"}` + "\n"}, end(), "%s", example[1])
			late := s.cli("wait", g.ID, "--type", "validation", "--timeout", "1s")
			require.Equal(t, 8, late.code, "escalated: %s", late.err)
			runs := s.runsOf(client.RunFilter{Claim: g.ID})
			require.NotEmpty(t, runs)
			for _, r := range runs {
				require.Equal(t, client.RunSucceeded, r.State, "%+v", r)
				t.Logf("%s: %s: %s%s", id, r.Point, r.Stdout, r.Stderr)
			}
			_, err = s.Release(t.Context(), g.ID, false)
			require.NoError(t, err)
			s.deleteWorkload(id)
		}
		s.requireEnds()
	})
}
