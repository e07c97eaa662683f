package backend

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/shim"
)

// The log of a container that was wiped begins after the marks of the wipe, also
// if the engine's clock is behind. Its time counts only where the log has no
// marks.
func TestLogsBeginAfterWipe(t *testing.T) {
	mark := "\n" + shim.LogEndLine(shim.NewLogMark(shim.DeriveKey(secret, "c"))) + "\n"
	foreign := "\n" + shim.LogEndLine(shim.NewLogMark(shim.DeriveKey(secret, "d"))) + "\n"
	wiped := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		log, want string
		since     time.Time
		tail      int64
	}{
		"wiped":                    {"old\n" + mark + mark + "new\n", "new\n", wiped, 1000},
		"wiped by an older server": {"old\nnew\n", "later\n", wiped, 1000},
		"marks of another":         {"old\n" + foreign + "new\n", "later\n", wiped, 1000},
		"never wiped":              {"old\nnew\n", "old\nnew\n", time.Time{}, 1000},
		"its end":                  {"old\nnew\n", "ew\n", time.Time{}, 3},
		"nothing of it":            {"old\nnew\n", "", time.Time{}, 0},
		"less than nothing":        {"old\nnew\n", "", time.Time{}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(nil, Options{Secret: secret, CopyLog: func(_ context.Context, id string, part LogPart, to io.Writer) error {
				require.Equal(t, "c", id)
				require.Equal(t, max(0, tt.tail), part.Lines)
				require.False(t, part.Current)
				text := tt.log
				if !part.Since.IsZero() {
					require.Equal(t, wiped, part.Since)
					text = "later\n"
				}
				_, err := io.WriteString(to, text)
				return err
			}})
			log, err := c.Logs(t.Context(), "c", tt.since, tt.tail)
			require.NoError(t, err)
			text, err := io.ReadAll(log)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(text))
		})
	}
}

// The last bytes are kept, however they were written.
func TestTailBuffer(t *testing.T) {
	text := strings.Repeat("0123456789", 100)
	for _, limit := range []int{1, 7, 10, 999, 1000, 2000} {
		for _, piece := range []int{1, 3, 64, 1000} {
			l := tailBuffer{limit: limit}
			for i := 0; i < len(text); i += piece {
				_, _ = l.Write([]byte(text[i:min(i+piece, len(text))]))
				require.LessOrEqual(t, len(l.data), 3*limit)
			}
			require.Equal(t, text[max(0, len(text)-limit):], string(l.bytes()), "%d by %d", limit, piece)
		}
	}
}
