package kubernetes

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// deletingServer is an API server with one pod, which is gone once it is deleted.
type deletingServer struct {
	pod      *corev1.Pod
	onDelete func()
}

func (s deletingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodDelete {
		return jsonResponse(http.StatusOK, s.pod)
	}
	s.onDelete()
	return jsonResponse(http.StatusNotFound, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
	})
}

// The shim of a pod that keeps state is asked to end it before its deletion, which it
// would take for someone else's, and stay for an upload.
func TestDestroyIsAnnounced(t *testing.T) {
	for keeps, want := range map[bool]string{true: "asked, deleted", false: "deleted"} {
		var done []string
		r, pod := newSinglePodRuntime(t)
		env, err := r.shimEnv(runtime.Spec{ID: "c", KeepsState: keeps}, imageConfig{args: []string{"a"}})
		require.NoError(t, err)
		pod.Spec.Containers = []corev1.Container{{Name: mainContainer, Env: []corev1.EnvVar{env}}}
		r.client.Client.Transport = deletingServer{pod, func() { done = append(done, "deleted") }}
		r.setSessions(shim.NewSessions(shim.Options{
			CheckRunning: r.checkRunning,
			Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
				done = append(done, "asked")
				return nil, 0, runtime.ErrNotRunning
			},
		}))
		require.NoError(t, r.Destroy(t.Context(), "c"))
		require.Equal(t, want, strings.Join(done, ", "))
	}
}
