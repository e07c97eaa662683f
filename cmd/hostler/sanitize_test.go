package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// The output of tenants cannot control the reader's terminal.
func TestSanitize(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\nüñ 漢 👍\n": "plain\ttext\nüñ 漢 👍\n",
		"\x1b]0;root\a\x1b[2J":  `\x1b]0;root\a\x1b[2J`,
		"a\rb":                  `a\rb`,
		"\u009b31m":             `\u009b31m`,
		"\x9b31m \xff \ufffd":   `\x9b31m \xff ` + "\ufffd",
		"user\u202etxt.exe":     `user\u202etxt.exe`,
		"\x00\b\x7f":            `\x00\b\x7f`,
	} {
		require.Equal(t, want, sanitize(text), "%q", text)
	}
}

// The result does not depend on how the text is split into writes.
func TestSanitizingWriter(t *testing.T) {
	text := "a\r\nb\x1b[1mü漢👍\r\xe6\xbc"
	want := "a\nb" + `\x1b[1m` + "ü漢👍" + `\r\xe6\xbc`
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := &sanitizingWriter{to: &out}
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			n, err := w.Write(rest[:min(size, len(rest))])
			require.NoError(t, err)
			require.Equal(t, min(size, len(rest)), n)
		}
		require.NoError(t, w.Close())
		require.Equal(t, want, out.String(), "in writes of %d bytes", size)
	}
}

// Tables, events, errors and findings are always sanitized. The output of
// tenants is sanitized on a terminal, and unchanged elsewhere.
func TestOutputIsSanitized(t *testing.T) {
	const evil = "x\x1b]0;y\a"
	var out bytes.Buffer
	require.NoError(t, writeTable(&out, "A B", [][]string{{"1", evil}}))
	require.NoError(t, (&remote{}).printEvent(&out, client.FollowedEvent{Event: client.Event{Tenant: evil, Message: evil, Untrusted: true, Data: []byte(evil)}}))
	require.NoError(t, printReport(&out, client.Report{Findings: []client.Finding{{Message: evil}}}))
	require.NoError(t, printClaim(&out, client.Claim{Warnings: []string{evil}, Hooks: []client.HookSummary{{Hook: evil}}}, true))
	require.NoError(t, printReleased(&out, client.Claim{Warnings: []string{evil}}))
	reportError(&out, errors.New(evil))
	require.Equal(t, 9, strings.Count(out.String(), `x\x1b]0;y\a`), out.String())
	require.NotContains(t, out.String(), "\x1b")

	runs := []client.Run{{Hook: evil, Error: evil, Stdout: client.Output{Head: evil}, Stderr: client.Output{Head: evil}}}
	for _, terminal := range []bool{true, false} {
		var out, errOut bytes.Buffer
		require.NoError(t, printOutput(sanitizeFor(&out, terminal), sanitizeFor(&errOut, terminal), runs, 0))
		require.Equal(t, terminal, !strings.Contains(out.String(), "\x1b"))
		require.Equal(t, terminal, !strings.Contains(errOut.String(), "\x1b"))
	}
}
