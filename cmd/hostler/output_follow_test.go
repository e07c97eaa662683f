package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/runtime"
)

// liveAnswers returns what the server answers of a stream when each of its parts has
// been printed: whole lines while it runs, and at the end what is kept.
func liveAnswers(parts []string) (answers []client.Output) {
	var c runtime.Capture
	for _, part := range append(parts, "") {
		_, _ = c.Write([]byte(part))
		o := c.Output()
		if len(answers) < len(parts) {
			o = liveOutput{}.lines(o)
		}
		answers = append(answers, client.Output{Head: o.Head, Tail: o.Tail, Total: o.Total, Truncated: o.Truncated})
	}
	return answers
}

// Each line is shown once, in order, whatever a hook prints, and whatever answers have
// no output, also if lines repeat and more is printed than is kept.
func TestOutputFollower(t *testing.T) {
	var same, numbered, parts, long []string
	for i := range 40 {
		same = append(same, strings.Repeat("waiting\n", 400))
		numbered = append(numbered, fmt.Sprintf("%s%d\n", strings.Repeat("line\n", 500), i))
		parts = append(parts, fmt.Sprintf("a part\nof %d li", i), "nes\n")
		long = append(long, strings.Repeat("x", 5000)+"\n"+strings.Repeat("y", 5000), strings.Repeat("y", 3000)+"\n")
	}
	for name, printed := range map[string][]string{"same": same, "numbered": numbered, "parts": parts, "long": long, "no end": {"a\n", "b"}} {
		t.Run(name, func(t *testing.T) {
			var f outputFollower
			var shown strings.Builder
			for _, o := range liveAnswers(printed) {
				for _, answer := range []client.Output{o, {}, o} {
					added, lost := f.advance(answer)
					require.False(t, lost)
					shown.WriteString(added)
				}
			}
			require.Equal(t, strings.Join(printed, ""), shown.String())
		})
	}
}

// What is not kept is missing once.
func TestOutputFollowerLosesOnce(t *testing.T) {
	var f outputFollower
	tail := func(n int) string { return strings.Repeat(fmt.Sprintf("%d\n", n), 100) }
	added, lost := f.advance(client.Output{Head: "begun\n", Tail: tail(1), Total: 100_000, Truncated: true})
	require.Equal(t, "begun\n\n[...]\n"+tail(1), added)
	require.False(t, lost, "the text has it")
	added, lost = f.advance(client.Output{Head: "begun\n", Tail: tail(2), Total: 200_000, Truncated: true})
	require.Equal(t, tail(2), added)
	require.True(t, lost)
	added, lost = f.advance(client.Output{Head: "begun\n", Tail: tail(2), Total: 200_000, Truncated: true})
	require.Empty(t, added)
	require.False(t, lost)
}

// A secret that becomes known changes what was shown before. Its lines are not shown
// again.
func TestOutputFollowerOfRedacted(t *testing.T) {
	var f outputFollower
	_, _ = f.advance(client.Output{Head: "secret\nmore\n", Total: 12})
	added, lost := f.advance(client.Output{Head: "•••\nmore\nend\n", Total: 16})
	require.Equal(t, "end\n", added)
	require.False(t, lost)
}

// A container that does not answer for a while adds nothing to what is printed.
func TestFollowUnansweredRun(t *testing.T) {
	var out, errOut bytes.Buffer
	f := runFollower{out: &out, errOut: &errOut}
	for _, a := range []client.Run{
		{State: client.RunRunning, Stdout: client.Output{Head: "a\nb\n", Total: 4}},
		{State: client.RunRunning},
		{State: client.RunRunning, Stdout: client.Output{Head: "a\nb\nc\n", Total: 6}},
		{State: client.RunLost},
	} {
		_, err := f.print([]client.Run{a})
		require.NoError(t, err)
	}
	require.Equal(t, "a\nb\nc\n", out.String())
	require.NotContains(t, errOut.String(), "missing")
}
