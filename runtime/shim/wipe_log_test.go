package shim

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A text is found however it is split across writes, and only if it is
// complete.
func TestTextMatcher(t *testing.T) {
	t.Parallel()
	before, text, after := strings.Repeat("line\n", 100)+"the the en", "the end", "\nmore"
	for size := 1; size <= len(before+text+after); size++ {
		f := textMatcher{text: []byte(text)}
		write := func(rest string) {
			for rest != "" {
				n, err := f.Write([]byte(rest[:min(size, len(rest))]))
				require.NoError(t, err)
				rest = rest[n:]
			}
		}
		write(before)
		require.False(t, f.found, "by %d bytes", size)
		write(text + after)
		require.True(t, f.found, "by %d bytes", size)
		write(before)
		require.True(t, f.found)
	}
}

// Both marks must be found. An engine that has not written one down is read
// again. If the other stream has moved on, a new pair of marks is printed. The
// wait has a timeout.
func TestWaitForMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		log := func(lines map[string]time.Duration) tailer {
			return func(_ context.Context, _ int64, to io.Writer) error {
				for mark, after := range lines {
					if time.Since(start) >= after {
						_, _ = io.WriteString(to, LogEndLine(mark)+"\n")
					}
				}
				return nil
			}
		}
		marks := []string{"one", "two"}
		both, err := log(map[string]time.Duration{"one": 0, "two": 0}).waitForMarks(t.Context(), marks)
		require.NoError(t, err)
		require.True(t, both)
		require.Zero(t, time.Since(start))

		both, err = log(map[string]time.Duration{"one": time.Second, "two": time.Second + secondMarkTimeout/2}).waitForMarks(t.Context(), marks)
		require.NoError(t, err)
		require.True(t, both)
		require.Less(t, time.Since(start), time.Second+2*secondMarkTimeout)

		both, err = log(map[string]time.Duration{"two": 0, "other": 0}).waitForMarks(t.Context(), marks)
		require.NoError(t, err)
		require.False(t, both)

		timeout := errors.New("timed out")
		ctx, cancel := context.WithTimeoutCause(t.Context(), logTimeout, timeout)
		defer cancel()
		_, err = log(nil).waitForMarks(ctx, marks)
		require.ErrorIs(t, err, timeout)
		both, err = log(map[string]time.Duration{"one": 0, "two": 0}).waitForMarks(ctx, marks)
		require.NoError(t, err)
		require.True(t, both, "they were found, however late")

		unavailable := tailer(func(context.Context, int64, io.Writer) error { return runtime.ErrUnavailable })
		_, err = unavailable.waitForMarks(t.Context(), marks)
		require.ErrorIs(t, err, runtime.ErrUnavailable)
	})
}

// A log is cut at the last mark that a server has created for this container.
// What looks like one and is not does not cut it.
func TestAfterLastWipe(t *testing.T) {
	t.Parallel()
	key, other := DeriveKey([]byte("secret"), "a"), DeriveKey([]byte("secret"), "b")
	mark := func(key []byte) string { return "\n" + LogEndLine(NewLogMark(key)) + "\n" }
	foreign := mark(other)
	for name, tt := range map[string]struct {
		log, want string
		found     bool
	}{
		"no mark":              {"one\ntwo\n", "one\ntwo\n", false},
		"empty":                {"", "", false},
		"one wipe":             {"one\n" + mark(key) + mark(key) + "two\n", "two\n", true},
		"nothing after it":     {"one\n" + mark(key) + mark(key), "", true},
		"two wipes":            {"one" + mark(key) + "two" + mark(key) + "three", "three", true},
		"a line between":       {mark(key) + "one\n" + mark(key), "", true},
		"no newline":           {"one" + strings.TrimSpace(mark(key)), "", true},
		"of another container": {"one" + foreign + "two", "one" + foreign + "two", false},
		"of an older server":   {"one\nhostler-shim: wiped X\ntwo", "one\nhostler-shim: wiped X\ntwo", false},
		"copied prefix": {"one" + mark(key) + "two\n" + LogEndLine("X.Y") + "\n" + LogEndLine(""),
			"two\n" + LogEndLine("X.Y") + "\n" + LogEndLine(""), true},
	} {
		t.Run(name, func(t *testing.T) {
			rest, found := AfterLastWipe(key, []byte(tt.log))
			require.Equal(t, tt.want, string(rest))
			require.Equal(t, tt.found, found)
		})
	}
}
