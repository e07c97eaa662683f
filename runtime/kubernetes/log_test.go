package kubernetes

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A log since a time begins with the first line that was printed then, to the
// nanosecond, and is unchanged.
func TestCopySince(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 500, time.UTC)
	line := func(nanos int, text string) string {
		return time.Date(2026, 1, 2, 3, 4, 5, nanos, time.UTC).Format(time.RFC3339Nano) + " " + text
	}
	long := strings.Repeat("x ", 10_000)
	for log, want := range map[string]string{
		"": "",
		line(499, "another's\n") + line(500, "a b\n") + line(501, "\n") + line(600, "last"): "a b\n\nlast",
		line(499, long+"\n") + line(500, long+"\n"):                                         long + "\n",
		line(1, "x\n") + "no time\n":                                                        "",
		line(1, long+line(600, "a time within a line\n")):                                   "",
	} {
		var out bytes.Buffer
		require.NoError(t, copySince(&out, strings.NewReader(log), since))
		require.Equal(t, want, out.String())
	}
}
