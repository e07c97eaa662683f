package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/client"
)

// onTerminal returns what a terminal gets.
func onTerminal(t *testing.T, show func(w io.Writer) error) string {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(reader.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.True(t, isTerminal(terminal))
	require.NoError(t, show(terminal))
	require.NoError(t, terminal.Close())
	got, _ := io.ReadAll(reader) // it ends with EIO: no one has the terminal open
	return string(got)
}

// What tenants have written does not control a terminal, in any format.
func TestTerminalIsNotControlled(t *testing.T) {
	const evil = "x\u009b31m\u202e\x7f\x1b]0;y\a"
	text, err := json.Marshal(evil)
	require.NoError(t, err)
	for _, output := range []string{"", "json", "yaml"} {
		r := remote{output: output}
		for name, show := range map[string]func(io.Writer) error{
			"value": func(w io.Writer) error {
				return r.printResult(w, client.MemoryValue{Value: text}, func(w io.Writer) error { return printValue(w, text) })
			},
			"wait": func(w io.Writer) error {
				return r.printWait(w, client.Wait{State: client.WaitSignalled, Data: text, Context: text})
			},
			"claim": func(w io.Writer) error {
				c := client.Claim{Tenant: evil, Warnings: []string{evil}}
				return r.printResult(w, c, func(w io.Writer) error { return printClaim(w, c, true) })
			},
			"event of a wait": func(w io.Writer) error {
				data := fmt.Appendf(nil, `{"wait":"w","kind":"x","task":%s,"iteration":%s}`, text, text)
				return r.printEvent(w, client.FollowedEvent{Event: client.Event{Type: "wait.requested", Message: "x", Data: data}})
			},
			"event": func(w io.Writer) error {
				return r.printEvent(w, client.FollowedEvent{Event: client.Event{Message: evil, Tenant: evil, Data: text, Untrusted: true}})
			},
		} {
			got := onTerminal(t, show)
			require.Contains(t, got, "x", name)
			for _, bad := range []string{"\u009b", "\u202e", "\x7f", "\x1b", "\a"} {
				require.NotContains(t, got, bad, "%s as %q: %q", name, output, got)
			}
		}
	}
}
