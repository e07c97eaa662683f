package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/wait"
)

// A list of runs has no output, which tenants control; a single run has it.
func TestRunListsOmitOutput(t *testing.T) {
	b := newTestBackend()
	b.Attempts = []hooks.Run{{ID: "run-1", Attempt: 1, State: hooks.Failed, Stdout: runtime.Output{Head: "chosen"}, Stderr: runtime.Output{Head: "chosen"}}}
	server := startServer(t, b)
	list := request(t, server, "GET /v1/hook-runs", "")
	require.Equal(t, 200, list.status)
	require.Contains(t, list.text, "run-1")
	require.NotContains(t, list.text, "chosen")
	require.NotContains(t, list.text, "stdout")
	require.Equal(t, 2, strings.Count(request(t, server, "GET /v1/hook-runs?output=true", "").text, "chosen"))
	require.Equal(t, 2, strings.Count(request(t, server, "GET /v1/hook-runs/run-1", "").text, "chosen"))
}

// A list of waits has neither contexts nor data, which tenants control: they could
// make it too long to send, and too deep to decode. A single wait has them.
func TestWaitListsOmitContent(t *testing.T) {
	b := newTestBackend()
	b.Waits = []wait.Wait{{ID: "wait-1", Type: "review", State: wait.Signalled, Context: []byte(`"chosen"`), Data: []byte(`"chosen"`)}}
	server := startServer(t, b)
	list := request(t, server, "GET /v1/waits", "")
	require.Len(t, list.body["items"], 1)
	require.NotContains(t, list.text, "chosen")
	require.Equal(t, 2, strings.Count(request(t, server, "GET /v1/waits/wait-1", "").text, "chosen"))
}

// A page of runs with their output is small, whatever the requested limit.
func TestOutputPagesAreBounded(t *testing.T) {
	b := newTestBackend()
	b.Attempts = nil
	for i := range 50 {
		b.Attempts = append(b.Attempts, hooks.Run{ID: fmt.Sprintf("run-%02d", i), Attempt: 1, State: hooks.Failed})
	}
	server := startServer(t, b)
	page := request(t, server, "GET /v1/hook-runs?limit=1000&output=true", "").body
	require.Len(t, page["items"], 20)
	require.Equal(t, "run-19", page["next"])
	require.Len(t, request(t, server, "GET /v1/hook-runs?limit=1000", "").body["items"], 50)
}

// A page of events ends before it is too large, and its next is correct: no
// event is left out, and an event larger than a page is on a page of its own.
func TestEventPagesAreBounded(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	after := request(t, server, "GET /v1/events?limit=1000", "").body["next"]
	for _, size := range []int{3 << 20, 1 << 20, 900 << 10, 900 << 10} {
		b.Append(activity.Event{Type: activity.HookFailed, Message: strings.Repeat("x", size)})
	}
	var pages []int
	for range 4 {
		page := request(t, server, "GET /v1/events?limit=1000&after="+fmt.Sprintf("%.0f", after), "").body
		pages = append(pages, len(page["items"].([]any)))
		after = page["next"]
	}
	require.Equal(t, []int{1, 2, 1, 0}, pages)
}
