package snapshot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/s3test"
	"github.com/hostler/hostler/snapshot"
	clouds "github.com/hostler/hostler/snapshot/cloud"
	"github.com/hostler/hostler/workload"
)

// s3Server is a real S3 server, and a directory with credentials for it, valid
// and invalid ones.
type s3Server struct {
	endpoint string
	policy   snapshot.PathPolicy
}

// startS3 starts the server that make s3-tool builds.
func startS3(t testing.TB) *s3Server {
	t.Helper()
	s := &s3Server{endpoint: "http://" + s3test.Start(t), policy: snapshot.PathPolicy{Credentials: t.TempDir()}}
	for name, secret := range map[string]string{"right": s3test.Secret, "wrong": s3test.Secret + "-not"} {
		text := "[default]\naws_access_key_id = " + s3test.Key + "\naws_secret_access_key = " + secret + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(s.policy.Credentials, name), []byte(text), 0o600))
	}
	return s
}

func (s *s3Server) sync(t testing.TB, credentials, more string) *workload.Sync {
	t.Helper()
	return synced(t, fmt.Sprintf(`{sink: {type: s3, bucket: %s, region: us-east-1, endpoint: "%s", credentials: %s}%s}`, s3test.Bucket, s.endpoint, credentials, more))
}

func (s *s3Server) sinks(t testing.TB) *snapshot.Sinks {
	t.Helper()
	sinks := snapshot.NewSinks(s.policy, clouds.Open)
	t.Cleanup(func() { require.NoError(t, sinks.Close()) })
	return sinks
}

// Keys from the environment open the same bucket as those from a file.
func TestS3Environment(t *testing.T) {
	s := startS3(t)
	t.Setenv("HOSTLER_SINK_TEST", "aws_access_key_id="+s3test.Key+"\naws_secret_access_key="+s3test.Secret)
	h := newHarness(t, "")
	sinks := s.sinks(t)
	var err error
	h.sink, err = sinks.Open(t.Context(), s.sync(t, "{file: right}", ""))
	require.NoError(t, err)
	first := h.container(reg("small", "text"))
	h.upload(first)
	h.sink, err = sinks.Open(t.Context(), s.sync(t, "{env: HOSTLER_SINK_TEST}", ""))
	require.NoError(t, err)
	back, _ := h.download()
	require.Equal(t, h.has(first, "/data"), h.has(back, "/data"))
}

// No error shows a secret, whatever is wrong with it.
func TestS3ErrorsHideSecrets(t *testing.T) {
	s := startS3(t)
	h := newHarness(t, "")
	var err error
	h.sink, err = s.sinks(t).Open(t.Context(), s.sync(t, "{file: wrong}", ""))
	require.NoError(t, err)
	_, err = h.sink.Upload(t.Context(), h.rt, h.origin(h.container()))
	require.Error(t, err)
	require.NotContains(t, err.Error(), s3test.Secret)
	_, err = h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: h.container()})
	require.Error(t, err)
	require.NotContains(t, err.Error(), s3test.Secret)
}
