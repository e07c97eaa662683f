package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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
)

// moody is an API server with one pod, which changes once, and that is away now
// and then.
type moody struct {
	pod     *corev1.Pod
	begun   time.Time
	changes time.Duration // since it has begun
	away    []outage
	mute    bool // it lets nobody follow what changes
}

// outage is from when to when a server does not answer.
type outage struct{ from, to time.Duration }

func (m *moody) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Since(m.begun)
	for _, o := range m.away {
		if o.from <= now && now < o.to {
			return nil, errors.New("connection refused")
		}
	}
	if r.URL.Query().Get("watch") == "" {
		return answer(http.StatusOK, corev1.PodList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{*m.pod},
			ListMeta: metav1.ListMeta{ResourceVersion: "7"}})
	}
	if r.URL.Query().Get("sendInitialEvents") != "" || m.mute {
		return answer(http.StatusForbidden, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Reason: metav1.StatusReasonForbidden, Code: 403})
	}
	body, stream := io.Pipe()
	cut := func() { stream.CloseWithError(io.ErrUnexpectedEOF) }
	context.AfterFunc(r.Context(), cut)
	for _, o := range m.away {
		if now < o.from {
			time.AfterFunc(o.from-now, cut)
		}
	}
	if now < m.changes {
		time.AfterFunc(m.changes-now, func() {
			_ = json.NewEncoder(stream).Encode(map[string]any{"type": "MODIFIED", "object": m.pod}) // or it is cut
		})
	}
	return &http.Response{StatusCode: http.StatusOK, Body: body, Header: jsonHeader()}, nil
}

func answer(code int, object any) (*http.Response, error) {
	body, write := io.Pipe()
	go func() { // ends when the answer is read, or closed
		write.CloseWithError(json.NewEncoder(write).Encode(object))
	}()
	return &http.Response{StatusCode: code, Body: body, Header: jsonHeader()}, nil
}

func jsonHeader() http.Header {
	return http.Header{"Content-Type": {k8sruntime.ContentTypeJSON}}
}

// through is a backend whose cluster is that server.
func through(t *testing.T, m *moody) *Runtime {
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

// A server that is lost is waited for from when it was lost, however long the
// wait before it was; and no longer than that. What is no answer from the
// beginning, or ever the same complaint, is borne for as long.
func TestPatience(t *testing.T) {
	troubled := fmt.Errorf("%w: the node is in trouble", runtime.ErrUnavailable)
	const long, short = 2 * patience, 2 * patience / 3
	for name, test := range map[string]struct {
		server    moody
		complains bool
		ends      time.Duration
		want      error
	}{
		"it changes":            {server: moody{changes: long}, ends: long},
		"away for a while":      {server: moody{changes: long + 1, away: []outage{{long, long + short}}}, ends: long + short},
		"away twice":            {server: moody{changes: 3 * long, away: []outage{{long, long + short}, {2 * long, 2*long + short}}}, ends: 3 * long},
		"away for long":         {server: moody{changes: 2 * long, away: []outage{{long, 2 * long}}}, ends: long + patience, want: runtime.ErrUnavailable},
		"never there":           {server: moody{changes: long, away: []outage{{0, long}}}, ends: patience, want: runtime.ErrUnavailable},
		"may not be followed":   {server: moody{changes: long, mute: true}, ends: patience, want: runtime.ErrUnavailable},
		"in trouble at once":    {complains: true, ends: patience, want: troubled},
		"in trouble in the end": {server: moody{changes: long}, complains: true, ends: long + patience, want: troubled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				pod := &corev1.Pod{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
					ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: "7"},
				}
				m := test.server
				m.pod, m.begun = pod, begun
				r := through(t, &m)
				err := r.await(t.Context(), pod, func(now *corev1.Pod) (bool, error) {
					require.NotNil(t, now, "it is there all the time")
					if time.Since(begun) < m.changes {
						return false, nil
					}
					if test.complains {
						return false, troubled
					}
					return true, nil
				})
				require.ErrorIs(t, err, test.want)
				require.InDelta(t, test.ends.Seconds(), time.Since(begun).Seconds(), 3)
			})
		})
	}
}

// What ends a wait is said once, also when it counts as no answer itself.
func TestSaidOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("%w: the node is silent", runtime.ErrUnavailable))
	err := until(ctx, time.Minute, func() (bool, error) { return false, context.Cause(ctx) })
	require.EqualError(t, err, context.Cause(ctx).Error())
}
