package docker

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/shim"
)

// The log of a container that was wiped begins after the marks of the wipe. The
// time of the wipe counts only where the log has no marks.
func TestLogsBeginAfterWipe(t *testing.T) {
	for name, tt := range map[string]struct {
		marked, wiped bool
		want, since   string
	}{
		"wiped":                    {marked: true, wiped: true, want: "new\n"},
		"wiped by an older server": {wiped: true, want: "since\n", since: "2000-01-01T00:00:00Z"},
		"never wiped":              {want: "old\nnew\n"},
	} {
		t.Run(name, func(t *testing.T) {
			since := ""
			r := newStubRuntime(t, func(w http.ResponseWriter, req *http.Request) {
				if !strings.HasSuffix(req.URL.Path, "/logs") {
					serveContainer(w, container.State{Status: container.StateRunning, Running: true})
					return
				}
				out := stdcopy.NewStdWriter(w, stdcopy.Stdout)
				if since = req.URL.Query().Get("since"); since != "" {
					_, _ = io.WriteString(out, "since\n")
					return
				}
				_, _ = io.WriteString(out, "old\n")
				if tt.marked {
					mark := shim.NewLogMark(shim.DeriveKey([]byte("secret"), "c"))
					_, _ = io.WriteString(out, "\n"+shim.LogEndLine(mark)+"\n")
				}
				_, _ = io.WriteString(out, "new\n")
			})
			at := time.Time{}
			if tt.wiped {
				at = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			}
			log, err := r.Logs(context.Background(), "c", at, 1000)
			require.NoError(t, err)
			text, err := io.ReadAll(log)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(text))
			require.Equal(t, tt.since != "", since != "")
		})
	}
}
