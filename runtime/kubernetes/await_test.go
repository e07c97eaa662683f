package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// flakyServer is an API server with one pod, which changes once. It is sometimes
// unavailable.
type flakyServer struct {
	pod         *corev1.Pod
	start       time.Time
	changeAfter time.Duration // since the start
	changed     *corev1.Pod   // the pod after its change; nil: as before
	outages     []outage
	forbidWatch bool   // it permits no watch
	patch       string // the last change of the pod
}

// outage is the period in which a server does not respond.
type outage struct{ from, to time.Duration }

// current returns the pod as it is now.
func (m *flakyServer) current() *corev1.Pod {
	if m.changed != nil && time.Since(m.start) >= m.changeAfter {
		return m.changed
	}
	return m.pod
}

func (m *flakyServer) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Since(m.start)
	for _, o := range m.outages {
		if o.from <= now && now < o.to {
			return nil, errors.New("connection refused")
		}
	}
	if r.URL.Query().Get("watch") == "" {
		return jsonResponse(http.StatusOK, corev1.PodList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{*m.current()},
			ListMeta: metav1.ListMeta{ResourceVersion: "7"}})
	}
	if r.URL.Query().Get("sendInitialEvents") != "" || m.forbidWatch {
		return jsonResponse(http.StatusForbidden, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Reason: metav1.StatusReasonForbidden, Code: 403})
	}
	body, stream := io.Pipe()
	cut := func() { stream.CloseWithError(io.ErrUnexpectedEOF) }
	context.AfterFunc(r.Context(), cut)
	for _, o := range m.outages {
		if now < o.from {
			time.AfterFunc(o.from-now, cut)
		}
	}
	if now < m.changeAfter {
		time.AfterFunc(m.changeAfter-now, func() {
			_ = json.NewEncoder(stream).Encode(map[string]any{"type": "MODIFIED", "object": m.current()}) // or the watch is closed
		})
	}
	return &http.Response{StatusCode: http.StatusOK, Body: body, Header: jsonHeader()}, nil
}

func jsonResponse(code int, object any) (*http.Response, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(body)), Header: jsonHeader()}, nil
}

func jsonHeader() http.Header {
	return http.Header{"Content-Type": {k8sruntime.ContentTypeJSON}}
}

// newFlakyRuntime returns a backend whose cluster is that server.
func newFlakyRuntime(t *testing.T, m *flakyServer) *Runtime {
	t.Helper()
	client, err := newClient(&rest.Config{
		Host: "http://moody.invalid", APIPath: "/api", Transport: m, QPS: -1,
		ContentConfig: rest.ContentConfig{
			GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
		},
	})
	require.NoError(t, err)
	return &Runtime{config: &rest.Config{Host: "moody"}, client: client, pods: newPods(client, "default"), log: clientLog(nil)}
}

// The timeout for a lost server begins when it was lost, however long the wait was
// before. The same timeout applies to a server that never responds, and to a
// condition that returns the same error every time.
func TestAwaitPodTimeouts(t *testing.T) {
	troubled := fmt.Errorf("%w: the node is in trouble", runtime.ErrUnavailable)
	const long, short = 2 * maxWait, 2 * maxWait / 3
	for name, test := range map[string]struct {
		server    flakyServer
		complains bool
		ends      time.Duration
		want      error
	}{
		"it changes":           {server: flakyServer{changeAfter: long}, ends: long},
		"unavailable":          {server: flakyServer{changeAfter: long + 1, outages: []outage{{long, long + short}}}, ends: long + short},
		"unavailable twice":    {server: flakyServer{changeAfter: 3 * long, outages: []outage{{long, long + short}, {2 * long, 2*long + short}}}, ends: 3 * long},
		"unavailable too long": {server: flakyServer{changeAfter: 2 * long, outages: []outage{{long, 2 * long}}}, ends: long + maxWait, want: runtime.ErrUnavailable},
		"never available":      {server: flakyServer{changeAfter: long, outages: []outage{{0, long}}}, ends: maxWait, want: runtime.ErrUnavailable},
		"watch is forbidden":   {server: flakyServer{changeAfter: long, forbidWatch: true}, ends: maxWait, want: runtime.ErrUnavailable},
		"error at once":        {complains: true, ends: maxWait, want: troubled},
		"error at the end":     {server: flakyServer{changeAfter: long}, complains: true, ends: long + maxWait, want: troubled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				pod := &corev1.Pod{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
					ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: "7"},
				}
				m := test.server
				m.pod, m.start = pod, start
				r := newFlakyRuntime(t, &m)
				err := r.awaitPod(t.Context(), pod, func(now *corev1.Pod) (bool, error) {
					require.NotNil(t, now, "the pod exists all the time")
					if time.Since(start) < m.changeAfter {
						return false, nil
					}
					if test.complains {
						return false, troubled
					}
					return true, nil
				})
				require.ErrorIs(t, err, test.want)
				require.InDelta(t, test.ends.Seconds(), time.Since(start).Seconds(), 3)
			})
		})
	}
}

// The error that ends a wait is reported once, also if it is an ErrUnavailable.
func TestRetryErrorNotRepeated(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("%w: the node is silent", runtime.ErrUnavailable))
	err := withRetry(ctx, time.Minute, func() (bool, error) { return false, context.Cause(ctx) })
	require.EqualError(t, err, context.Cause(ctx).Error())
}

// podServer is a flakyServer that also answers for its pod alone.
type podServer struct{ *flakyServer }

func (s podServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/pods/"+s.pod.Name) {
		if r.Method == http.MethodPatch {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			s.patch = string(body)
		}
		return jsonResponse(http.StatusOK, s.current())
	}
	return s.flakyServer.RoundTrip(r)
}

// A container that the kubelet does not restart is not waited for indefinitely:
// a tenant can fill the volumes in memory, which outlive the container, so that
// each start of process 1 fails.
func TestCrashLoopIsNotAwaitedIndefinitely(t *testing.T) {
	for name, waiting := range map[string]string{"crash loop": "CrashLoopBackOff", "it cannot be run": "RunContainerError"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &flakyServer{start: time.Now()}
				r := newFlakyRuntime(t, server)
				r.instance = "test"
				server.pod = &corev1.Pod{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
					ObjectMeta: metav1.ObjectMeta{
						Name: podName("c"), UID: "u", ResourceVersion: "7",
						Labels:      map[string]string{labelManaged: "true", labelInstance: "test", labelContainer: "c"},
						Annotations: map[string]string{annotationProtocol: shim.Protocols().Format()},
					},
					Status: corev1.PodStatus{
						Phase:      corev1.PodRunning,
						Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
						ContainerStatuses: []corev1.ContainerStatus{{
							Name: mainContainer, RestartCount: 7,
							State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}},
							LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
								ExitCode: 137, Reason: "OOMKilled",
							}},
						}},
					},
				}
				r.client.Client.Transport = podServer{server}
				r.setSessions(shim.NewSessions(shim.Options{CheckRunning: r.checkRunning, Dial: r.dial}))
				err := r.Start(t.Context(), "c", 1)
				require.ErrorIs(t, err, runtime.ErrNotRunning)
				require.ErrorContains(t, err, waiting)
				require.Equal(t, restartTimeout, time.Since(server.start))
			})
		})
	}
}

// A restart is recorded by the number of exits. If the node knows of an exit
// earlier than the API server, the main process is started when the API server
// reports it, and not before.
func TestRestartAwaitsReportedExit(t *testing.T) {
	for name, reported := range map[string]bool{"reported": true, "never reported": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const delay = 3 * time.Second
				pod := &corev1.Pod{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
					ObjectMeta: metav1.ObjectMeta{
						Name: podName("c"), UID: "u", ResourceVersion: "7",
						Labels:      map[string]string{labelManaged: "true", labelInstance: "test", labelContainer: "c"},
						Annotations: map[string]string{annotationProtocol: shim.Protocols().Format()},
					},
					Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
						Name: mainContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
					}}},
				}
				server := &flakyServer{start: time.Now(), pod: pod}
				r := newFlakyRuntime(t, server)
				r.instance = "test"
				r.client.Client.Transport = podServer{server}
				if reported {
					server.changeAfter = delay
					server.changed = pod.DeepCopy()
					server.changed.Status.ContainerStatuses[0].RestartCount = 1
				}
				var startedAfter time.Duration
				err := r.resume(t.Context(), "c", func(context.Context) error {
					startedAfter = time.Since(server.start)
					return nil
				})
				if !reported {
					require.ErrorIs(t, err, runtime.ErrUnavailable)
					require.Zero(t, startedAfter)
					require.Equal(t, maxExitDelay, time.Since(server.start))
					return
				}
				require.NoError(t, err)
				require.Equal(t, delay, startedAfter)
				require.Empty(t, server.patch, "it may be for a stop")
				require.NoError(t, r.restarted(t.Context(), "c"))
				require.JSONEq(t, `{"metadata":{"uid":"u","annotations":{"hostler.revived":"1"}}}`, server.patch)
			})
		})
	}
}
