package kubernetes

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hostler/hostler/runtime/shim"
)

// The server may be killed, or the API server fail, between the start of the main
// process of an exited container and the record of that start. The next Restart
// records it: otherwise the container would count as exited for as long as it
// lives.
func TestRestartRecordsEarlierStart(t *testing.T) {
	pod := newTestPod(1, true, 1, 0) // exited once, started again, not recorded
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.ObjectMeta.Name, pod.ObjectMeta.ResourceVersion = podName("c"), "7"
	pod.Labels = map[string]string{labelManaged: "true", labelInstance: "test", labelContainer: "c"}
	pod.Annotations = map[string]string{annotationProtocol: shim.Protocols().Format()}
	server := &flakyServer{start: time.Now(), pod: pod}
	r := newFlakyRuntime(t, server)
	r.instance = "test"
	r.client.Client.Transport = podServer{server}
	secret := []byte("secret")
	sessions := shim.NewSessions(shim.Options{Secret: secret, CheckRunning: r.checkRunning,
		Dial: func(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
			if _, _, err := r.lookupCompatible(ctx, id); err != nil {
				return nil, 0, err
			}
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				channel, err := shim.ProgramHandshake(theirs, shim.DeriveKey(secret, "c"), shim.HandshakeReply{BootID: "b", Main: shim.MainRunning})
				if err != nil {
					return
				}
				shim.NewConn(theirs, channel, func(in *shim.Incoming) error {
					go func() { _ = in.Respond(shim.Response{}) }() // the main process runs: every change succeeds
					return nil
				}, nil).Run()
			}()
			return ours, shim.Version, nil
		}})
	r.setSessions(sessions)
	defer sessions.Close()
	require.NoError(t, r.Restart(t.Context(), "c", 9))
	require.Contains(t, server.patch, annotationRestarted, "Restart returned nil and the container still counts as exited")
	server.patch = ""
	require.NoError(t, r.Restart(t.Context(), "c", 10))
	require.Empty(t, server.patch, "it is recorded once")
	server.pod.Status = newTestPod(3, true, 1, 0).Status
	r.unrecorded.Store("c", 2)
	require.NoError(t, r.Restart(t.Context(), "c", 11))
	require.Empty(t, server.patch, "it has exited again since the start")
}
