package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
)

// A command and a script have the same environment, input and settings. The text
// of a script is neither an argument nor part of the environment.
func TestCommandsAndScripts(t *testing.T) {
	process := hooks.Process{User: "app", Workdir: "/srv", Environment: map[string]variables.Template{"MODE": variables.Literal("fast")}}
	for kind, action := range map[hooks.Kind]hooks.Action{
		hooks.KindCommand: hooks.Command{Args: []string{"a", "b"}, Process: process},
		hooks.KindScript:  hooks.Script{Text: "exit 0", Shell: []string{"a", "b"}, Process: process},
	} {
		s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}}
		result := NewCommandExecutor(s).Execute(t.Context(), Attempt{
			Context: Context{Run: "r", Attempt: 2, Container: "c"}, Action: action, Timeout: time.Minute, Fence: 7,
			Envelope: []byte(`{"type":"x"}`),
		})
		require.Equal(t, hooks.Succeeded, result.State)
		sent := s.calls[0]
		require.Equal(t, "fast", sent.Environment["MODE"])
		require.NotContains(t, sent.Environment, "exit 0")
		script := ""
		if kind == hooks.KindScript {
			script = "exit 0"
		}
		sent.Environment = nil
		require.Equal(t, runtime.Command{
			RunID: "r.2", Args: []string{"a", "b"}, Script: script, User: "app", Workdir: "/srv",
			Stdin: []byte(`{"type":"x"}`), Timeout: time.Minute, Fence: 7,
		}, sent)
	}
}
