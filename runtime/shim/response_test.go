package shim

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// What is kept of a response is bounded, and no more than its operation has: a
// connection to a port keeps it as long as its client likes.
func TestResponseIsLimited(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", MaxFrame/32)
	sent := Response{
		Error:    &WireError{Code: Code(long), Reason: runtime.StartReason(long), Detail: long},
		Answer:   &Answer{Body: []byte("a")},
		Commands: CommandList{{ID: "a"}},
		Result: &runtime.Result{
			ExitCode: 7, Signal: long, Exceeded: runtime.Limit(long),
			Stdout: runtime.Output{Head: long, Tail: long}, Stderr: runtime.Output{Head: long, Tail: long},
		},
	}
	for _, op := range []Op{OpDial, OpRun, OpWaitResult, OpCommands, OpAsk} {
		synctest.Test(t, func(t *testing.T) {
			r := newRogue(t, Server)
			defer r.victim.Close()
			out, err := r.victim.Call(Request{Op: op})
			require.NoError(t, err)
			response := sent
			response.ID = out.id
			r.send(KindResponse, response)
			got := (<-out.events).response
			require.Equal(t, op == OpRun || op == OpWaitResult, got.Result != nil)
			require.Equal(t, op == OpCommands, got.Commands != nil)
			require.Equal(t, op == OpAsk, got.Answer != nil)
			texts := map[string]int{
				string(got.Error.Code): maxResultName, string(got.Error.Reason): maxResultName, got.Error.Detail: maxErrorText,
			}
			if result := got.Result; result != nil {
				require.Equal(t, 7, result.ExitCode)
				texts[result.Signal], texts[string(result.Exceeded)] = maxResultName, maxResultName
				texts[result.Stdout.Head], texts[result.Stderr.Tail] = maxResultHead, maxResultTail
				texts[result.Stderr.Head], texts[result.Stdout.Tail] = maxResultHead, maxResultTail
			}
			for text, most := range texts {
				require.LessOrEqual(t, len(text), most)
				require.Greater(t, len(text), most-4, "the beginning is kept")
				require.True(t, strings.HasPrefix(long, text), "no character is split")
			}
		})
	}
}

// The most that an intact program keeps of a command arrives as it is.
func TestLongestResponseIsComplete(t *testing.T) {
	t.Parallel()
	var capture runtime.Capture
	_, err := capture.Write(bytes.Repeat([]byte{0xff}, runtime.OutputHead+runtime.OutputTail))
	require.NoError(t, err)
	sent := runtime.Result{Signal: "SIGKILL", Exceeded: runtime.LimitFileSize, Stdout: capture.Output(), Stderr: capture.Output()}
	got := sent
	(&Response{Result: &got}).limit(OpRun)
	require.Equal(t, sent, got)
}

// A list of commands costs this end no more than the commands that it may have: each
// needs three bytes on the wire, and thirty times as much in memory.
func TestListOfManyCommands(t *testing.T) {
	t.Parallel()
	list := func(element string, n int) []byte {
		return []byte("[" + strings.Repeat(element+",", n-1) + element + "]")
	}
	var got CommandList
	require.NoError(t, json.Unmarshal(list(`{}`, 10*maxListedCommands), &got))
	require.Len(t, got, maxListedCommands+1, "one too many")
	require.NoError(t, json.Unmarshal(list(`{"id":"a"}`, maxListedCommands), &got))
	require.Len(t, got, maxListedCommands)
	require.Error(t, json.Unmarshal([]byte(`[{"args":`+string(list(`""`, maxCommandStatus/3))+`}]`), &got))
	for text, isList := range map[string]bool{"null": true, "[]": true, "{}": false, "7": false, `[7]`: false, `["a"]`: false} {
		err := json.Unmarshal([]byte(text), &got)
		require.Equal(t, isList, err == nil, text)
		require.Empty(t, got, text)
	}
}
