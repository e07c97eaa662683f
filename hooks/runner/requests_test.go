package runner

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// The processes of a hook may ask for its claim where the flow permits it, also after
// another server has resumed it, with the fence of the flow that waits. Those of
// other commands may not.
func TestHooksOfFlowsMayAsk(t *testing.T) {
	for _, mayAsk := range []bool{true, false} {
		s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}, waitResults: []scriptedResult{exit0}}
		var handled []string
		x := NewCommandExecutor(s).WithRequests(func(claim, container string) runtime.RequestHandler {
			handled = append(handled, claim+" "+container)
			return func(context.Context, runtime.Request, func(runtime.Response)) {}
		})
		subject := Subject{Claim: "c", Container: "k", Fence: 7, MayAsk: mayAsk}
		r := testRunner{New(nil, &fakeRecorder{}, Executors{hooks.KindCommand: x}, nil)}
		_, err := r.run(t.Context(), hooks.PreRelease, []hooks.Hook{newHook("a", hooks.Fail, 0)}, subject)
		require.NoError(t, err)
		require.Len(t, s.calls, 1)
		require.Equal(t, mayAsk, s.calls[0].Requests != nil)

		run := hooks.Run{ID: "r", Attempt: 1, Hook: "a", Kind: hooks.KindCommand, State: hooks.Running, Claim: "c", Container: "k"}
		_, err = r.resume(t.Context(), newHook("a", hooks.Fail, 0), run, subject, false)
		require.NoError(t, err)
		require.Len(t, s.waitCalls, 1)
		require.Equal(t, mayAsk, s.waitCalls[0].Requests != nil)
		if mayAsk {
			require.EqualValues(t, 7, s.waitCalls[0].Fence)
			require.Subset(t, []string{"c k"}, handled)
		}
	}
	cmd := NewCommandExecutor(nil).permitting(runtime.Command{}, Attempt{MayAsk: true})
	require.Nil(t, cmd.Requests, "nothing handles them")
}
