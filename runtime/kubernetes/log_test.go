package kubernetes

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hostler/hostler/runtime/shim"
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

// The log of a container that was wiped begins after the marks of the wipe. The
// time of the wipe counts only where the log has no marks: it is not of the
// node's clock.
func TestLogsBeginAfterWipe(t *testing.T) {
	mark := "\n" + shim.LogEndLine(shim.NewLogMark(shim.DeriveKey([]byte("secret"), "c"))) + "\n"
	wiped := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		log, want string
		since     time.Time
	}{
		"wiped":                    {"old\n" + mark + mark + "new\n", "new\n", wiped},
		"wiped by an older server": {"old\nnew\n", "later\n", wiped},
		"never wiped":              {"old\nnew\n", "old\nnew\n", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			server := &flakyServer{start: time.Now(), pod: &corev1.Pod{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{
					Name: podName("c"), UID: "u", Labels: map[string]string{labelManaged: "true", labelInstance: "test", labelContainer: "c"},
				},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
					Name: mainContainer, ContainerID: "x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				}}},
			}}
			r := newFlakyRuntime(t, server)
			r.instance, r.secret = "test", []byte("secret")
			r.setSessions(nil)
			r.client.Client.Transport = logServer{podServer{server}, tt.log}
			log, err := r.Logs(t.Context(), "c", tt.since, 1000)
			require.NoError(t, err)
			text, err := io.ReadAll(log)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(text))
		})
	}
}

// logServer is a podServer that also has the log of its pod.
type logServer struct {
	podServer
	log string
}

func (s logServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/log") {
		return s.podServer.RoundTrip(r)
	}
	text := s.log
	if r.URL.Query().Get("sinceTime") != "" {
		text = "2026-01-02T03:04:05Z later\n"
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}
