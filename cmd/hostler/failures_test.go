package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/client"
)

// A claimed container that is destroyed by force is not said to be claimed.
func TestDestroyed(t *testing.T) {
	require.Equal(t, "container c1 destroying", destroyed(client.Container{ID: "c1", State: client.ContainerDestroying}))
	require.Equal(t, "container c1 is being destroyed; its claim k1 of tenant ada has lost it: `hostler release k1` ends the claim",
		destroyed(client.Container{ID: "c1", State: client.ContainerClaimed, Claim: "k1", Tenant: "ada"}))
}

// A line of an event has what a container printed last, in one line that a terminal
// can show, and the command that shows the rest.
func TestLastOutput(t *testing.T) {
	event := func(typ client.EventType, message, data string) client.Event {
		return client.Event{Type: typ, Container: "c1", Message: message, Data: []byte(data)}
	}
	for name, test := range map[string]struct {
		event client.Event
		want  string
	}{
		"another event":    {event(client.EventHookFailed, "", `{"output": {"excerpt": "x"}}`), ""},
		"nothing":          {event(client.EventContainerDied, "", `{"exit_code": 3}`), ""},
		"the last line":    {event(client.EventContainerDied, "it died", `{"output": {"excerpt": "a\n\u001b[31mno config\n"}}`), "; last output: \\x1b[31mno config; `hostler logs --container c1`"},
		"in the message":   {event(client.EventContainerDied, "it died; last output: b", `{"output": {"excerpt": "b\n"}}`), "; `hostler logs --container c1`"},
		"no valid data":    {event(client.EventContainerUnhealthy, "", `7`), ""},
		"a very long line": {event(client.EventContainerUnhealthy, "", `{"output": {"excerpt": "`+strings.Repeat("é", 999)+`"}}`), "; last output: " + strings.Repeat("é", 160) + "; `hostler logs --container c1`"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, lastOutput(test.event)) })
	}
}

// A long text in a table is cut for a terminal only, and a long name never is.
func TestTablesAreWhole(t *testing.T) {
	cause := strings.Repeat("the cause ", 20)
	var out bytes.Buffer
	require.NoError(t, writeTable(&out, "ID REASON", [][]string{{strings.Repeat("i", 100), oneLine(cause)}}))
	require.Contains(t, out.String(), strings.Repeat("i", 100))
	require.Contains(t, out.String(), strings.TrimSpace(cause))
	require.Len(t, []rune(shortened(cause)), 80)
	require.Equal(t, "short", shortened("short"))
}

// The hint of a claim that got no container is by the reason: waiting does not help
// a pool whose containers cannot be created.
func TestHintsOfPools(t *testing.T) {
	hint := func(reason string) string {
		_, _, hint := classify(&client.Error{Code: client.CodePoolNotReady, Reason: reason})
		return hint
	}
	require.Contains(t, hint("fill_failing"), "hostler describe pool")
	require.NotContains(t, hint("fill_failing"), "--wait")
	require.NotContains(t, hint("draining"), "--wait")
	require.Contains(t, hint("not_ready"), "--wait 30s")
}

// Hints name the workload of the command, by its argument or its flag.
func TestHintsNameTheWorkload(t *testing.T) {
	b := serveTestBackend(t)
	for reason, want := range map[claim.UnavailableReason]string{
		claim.FillFailing: "see why with `hostler describe pool web`",
		claim.Draining:    "fill the pool again with `hostler scale web --min-idle N`",
	} {
		b.Fail("claim", &claim.UnavailableError{Workload: "web", Reason: reason, Detail: "it is so"})
		code, _, errOut := hostler(t, "", "claim", "web", "--tenant", "bob")
		require.Equal(t, exitUnavailable, code, errOut)
		require.Contains(t, errOut, want)
		_, _, errOut = hostler(t, "", "claim", "web", "--tenant", "bob", "-o", "json")
		require.Contains(t, errOut, want)
	}
	cmd := newSyncCmd()
	require.NoError(t, cmd.Flags().Set("workload", "web"))
	_, _, hint := classify(aboutWorkload(cmd, nil, &client.Error{Code: client.CodePoolNotReady, Reason: "fill_failing"}))
	require.Contains(t, hint, "pool web")
	_, _, hint = classify(aboutWorkload(newSyncCmd(), nil, &client.Error{Code: client.CodePoolNotReady, Reason: "fill_failing"}))
	require.Contains(t, hint, "pool WORKLOAD", "it is not known")
	_, _, errOut := hostler(t, "", "describe", "workload", "web")
	require.Contains(t, errOut, "`hostler describe pool web`")
}

// A list of claims shows the health of their containers, and none for claims that
// have ended.
func TestHealthOfClaims(t *testing.T) {
	header, row := claimColumns(filters{})
	cells := row(client.Claim{ID: "k1", State: client.ClaimActive, Health: "exited"})
	names := strings.Fields(header)
	require.Len(t, cells, len(names))
	require.Equal(t, "exited", cells[4])
	require.Equal(t, "HEALTH", names[4])
	header, row = claimColumns(filters{wide: true})
	require.Len(t, row(client.Claim{}), len(strings.Fields(header)))
}
