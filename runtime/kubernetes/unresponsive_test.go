package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// singlePodServer is an API server with one pod.
type singlePodServer struct{ pod *corev1.Pod }

func (s singlePodServer) RoundTrip(*http.Request) (*http.Response, error) {
	return jsonResponse(http.StatusOK, s.pod)
}

// The errors with which a program ends.
var (
	errKilled     = exec.CodeExitError{Err: errors.New("command terminated with exit code 137"), Code: 137}
	errExecFailed = errors.New("internal error occurred: error executing command in container: failed to exec in container: resource temporarily unavailable")
	errDialing    = errors.New("internal error occurred: error dialing backend: dial tcp 10.0.0.7:10250: i/o timeout")
	errClosed     = errors.New("websocket: close 1006 (abnormal closure): unexpected EOF")
)

// newSinglePodRuntime returns a backend whose cluster has one pod, which runs.
func newSinglePodRuntime(t *testing.T) (*Runtime, *corev1.Pod) {
	t.Helper()
	r := newFlakyRuntime(t, &flakyServer{pod: &corev1.Pod{}})
	r.instance = "test"
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: podName("c"), Labels: map[string]string{
			labelManaged: "true", labelInstance: "test", labelContainer: "c",
		}},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: mainContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
	r.client.Client.Transport = singlePodServer{pod}
	return r, pod
}

// endedBridge returns a bridge that ended with this error before its first byte.
func (r *Runtime) endedBridge(err error) *bridge {
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	done := make(chan struct{})
	close(done)
	outWriter.Close()
	inReader.CloseWithError(errors.Join(io.ErrClosedPipe, err))
	return &bridge{stream: &stream{r: r, id: "c", in: in, out: out, done: done, err: err, cancel: func() {}}}
}

// If a bridge ends before its first byte, that is due to the container if its node
// reports, and has started it or tried to; else it is due to the cluster.
func TestBridgeStartErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		ready corev1.ConditionStatus
		want  error
		mute  bool
	}{
		"killed":                       {errKilled, corev1.ConditionTrue, runtime.ErrUnresponsive, true},
		"killed, and the node is lost": {errKilled, corev1.ConditionFalse, runtime.ErrUnavailable, false},
		"no room":                      {errExecFailed, corev1.ConditionTrue, runtime.ErrUnresponsive, true},
		"no room on a lost node":       {errExecFailed, corev1.ConditionUnknown, runtime.ErrUnavailable, false},
		"node unreachable":             {errDialing, corev1.ConditionTrue, runtime.ErrUnavailable, false},
		"disconnected":                 {errClosed, corev1.ConditionTrue, runtime.ErrUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, pod := newSinglePodRuntime(t)
			pod.Status.Conditions[0].Status = tt.ready
			_, err := r.endedBridge(tt.err).Read(make([]byte, 1))
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, tt.mute, errors.Is(err, runtime.ErrUnresponsive))
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
			_, err = r.endedBridge(tt.err).Read(make([]byte, 1))
			require.ErrorIs(t, err, runtime.ErrNotRunning)
		})
	}
}

// A container that ends each bridge is tainted after the timeout. One whose node
// is lost is not, however long that takes and however its bridges end.
func TestUnresponsiveContainersAndNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		dial    func(r *Runtime) (io.ReadWriteCloser, error)
		ready   corev1.ConditionStatus
		tainted bool
	}{
		"each bridge is killed":      {func(r *Runtime) (io.ReadWriteCloser, error) { return r.endedBridge(errKilled), nil }, corev1.ConditionTrue, true},
		"no bridge responds":         {silentBridge, corev1.ConditionTrue, true},
		"the node is lost":           {silentBridge, corev1.ConditionFalse, false},
		"the kubelet is unavailable": {func(r *Runtime) (io.ReadWriteCloser, error) { return r.endedBridge(errDialing), nil }, corev1.ConditionTrue, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, pod := newSinglePodRuntime(t)
				pod.Status.Conditions[0].Status = tt.ready
				sessions := shim.NewSessions(shim.Options{
					CheckRunning: r.checkRunning, UnresponsiveTimeout: time.Minute,
					Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
						stream, err := tt.dial(r)
						return stream, shim.Version, err
					},
				})
				start := time.Now()
				err := sessions.Get("c").Open(t.Context())
				for errors.Is(err, runtime.ErrUnavailable) && time.Since(start) < time.Hour {
					<-time.After(time.Second)
					err = sessions.Get("c").Open(t.Context())
				}
				require.Equal(t, tt.tainted, errors.Is(err, runtime.ErrTainted), "%v", err)
				if tt.tainted {
					require.LessOrEqual(t, time.Since(start), 80*time.Second)
				}
			})
		})
	}
}

// silentBridge returns a bridge that sends nothing.
func silentBridge(*Runtime) (io.ReadWriteCloser, error) {
	in, inWriter := io.Pipe()
	out, _ := io.Pipe()
	go io.Copy(io.Discard, in) //nolint:errcheck // ends with the bridge
	b := &bridge{stream: &stream{in: inWriter, out: out, cancel: func() {}}}
	b.started.Store(true)
	return b, nil
}
