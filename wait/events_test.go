package wait_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/wait"
)

// The events of a wait have what its hooks know, except for the data of the signal. Of a
// long text they have the beginning.
func TestEventsHaveVariables(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		q := request("a", 10*time.Second)
		q.Context = json.RawMessage(`{"task": "` + strings.Repeat("ä", 300) + `", "iteration": 3, "phase": "auth"}`)
		q.OnTimeout = wait.Extend
		_, err := s.Wait(t.Context(), r.claim.ID, q)
		require.NoError(t, err)
		for _, e := range r.Events("wait") {
			var data activity.WaitData
			require.NoError(t, json.Unmarshal(e.Data, &data))
			require.Equal(t, []any{"a", "review", int64(10_000), strings.Repeat("ä", 256), "3", "auth"},
				[]any{data.Name, data.Kind, data.ThresholdMS, data.Task, data.Iteration, data.Phase}, e.Type)
			require.Equal(t, e.Type != activity.WaitRequested && e.Type != activity.WaitStarted, data.DurationMS > 0, e.Type)
		}
	})
}
