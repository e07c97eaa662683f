package docker_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// The next tenant does not read the log of the previous one, however much the
// clocks of the server and the engine differ: rule 4.
func TestLogsAcrossClocks(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) { s.Command = []string{"/tool", "chatter"} })
	require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
	for fence := range int64(3) {
		<-time.After(300 * time.Millisecond) // the tenant prints all the time
		require.NoError(t, rt.Wipe(t.Context(), id, fence+2))
		wiped := time.Now()
		for _, skew := range []time.Duration{0, -20 * time.Millisecond, -time.Second, time.Second} {
			logs, err := rt.Logs(t.Context(), id, wiped.Add(skew), 1<<20)
			require.NoError(t, err)
			text, err := io.ReadAll(logs)
			require.NoError(t, err)
			require.Zero(t, strings.Count(string(text), "secret"), "with a server that is %s ahead", skew)
		}
		require.NoError(t, rt.Restart(t.Context(), id, fence+2))
	}
}
