package snapshot_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/required"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// s3Server is a real S3 server on a folder, and a folder with credentials for
// it, right and wrong ones.
type s3Server struct {
	endpoint string
	dir      string // the buckets
	places   snapshot.Places
}

const s3Secret = "a-secret-that-nobody-may-see"

// startS3 starts the server that make s3-tool builds.
func startS3(t testing.TB) *s3Server {
	t.Helper()
	found, err := filepath.Glob("../bin/tools/versitygw-*")
	require.NoError(t, err)
	if len(found) == 0 || strings.HasSuffix(found[0], ".part") {
		required.Missing(t, "s3", "the S3 server is not built: make s3-tool")
	}
	dir := t.TempDir()
	s := &s3Server{endpoint: "http://" + freeAddress(t), dir: filepath.Join(dir, "s3"), places: snapshot.Places{Credentials: filepath.Join(dir, "keys")}}
	for _, d := range []string{filepath.Join(s.dir, "bucket"), s.places.Credentials} {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	for name, secret := range map[string]string{"right": s3Secret, "wrong": s3Secret + "-not"} {
		text := "[default]\naws_access_key_id = key\naws_secret_access_key = " + secret + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(s.places.Credentials, name), []byte(text), 0o600))
	}
	// The context outlives the test's own: what is cleaned up later uses it.
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, found[0], "--port", strings.TrimPrefix(s.endpoint, "http://"), "posix", s.dir) //nolint:gosec // our own tool
	c.Env = []string{"ROOT_ACCESS_KEY=key", "ROOT_SECRET_KEY=" + s3Secret, "HOME=" + dir}
	out, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	c.Stdout, c.Stderr = out, out
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // it was killed
		_ = out.Close()
	})
	require.Eventually(t, func() bool {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.endpoint, "http://"), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 20*time.Second, 20*time.Millisecond, "the S3 server does not answer")
	return s
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (s *s3Server) sync(t testing.TB, credentials, more string) *workload.Sync {
	t.Helper()
	return synced(t, fmt.Sprintf(`{sink: {type: s3, bucket: bucket, region: us-east-1, endpoint: "%s", credentials: %s}%s}`, s.endpoint, credentials, more))
}

func (s *s3Server) sinks(t testing.TB) *snapshot.Sinks {
	t.Helper()
	sinks := snapshot.NewSinks(s.places)
	t.Cleanup(func() { require.NoError(t, sinks.Close()) })
	return sinks
}

// The contract, on a real S3 server.
func TestS3Contract(t *testing.T) {
	s := startS3(t)
	b, err := s.sinks(t).BucketOf(t.Context(), s.sync(t, "{file: right}", ""))
	require.NoError(t, err)
	snapshottest.Run(t, b)
}

// A tenant's state goes to S3 and comes back, in several parts where it is
// large, and a second sink with keys from the environment sees it.
func TestS3(t *testing.T) {
	s := startS3(t)
	t.Setenv("HOSTLER_SINK_TEST", "aws_access_key_id=key\naws_secret_access_key="+s3Secret)
	y := newYard(t, "")
	sinks := s.sinks(t)
	var err error
	y.sink, err = sinks.For(t.Context(), s.sync(t, "{file: right}", ""))
	require.NoError(t, err)
	y.owner.Tenant = "Alice/../B@b"
	files := []file{reg("small", "text"), reg("large", noise(30<<20)), link("l", "small")}
	first := y.container(files...)
	up := y.upload(first)
	require.Greater(t, up.Sent, int64(30<<20))
	require.True(t, y.upload(first).Unchanged)

	y.sink, err = sinks.For(t.Context(), s.sync(t, "{env: HOSTLER_SINK_TEST}", ""))
	require.NoError(t, err)
	back, _ := y.download()
	require.Equal(t, y.has(first, "/data"), y.has(back, "/data"))
	for i := range 5 {
		y.upload(y.container(reg("small", fmt.Sprint(i))))
	}
	list, err := y.sink.List(t.Context(), y.owner)
	require.NoError(t, err)
	require.Len(t, list, 3)
	_, err = y.sink.Restore(t.Context(), y.owner, list[2].ID)
	require.NoError(t, err)
	require.Equal(t, "2", y.kept()["small"])
	_, err = y.sink.Prune(t.Context(), y.owner)
	require.NoError(t, err)
}

// No error shows a secret, whatever is wrong with it.
func TestS3Refuses(t *testing.T) {
	s := startS3(t)
	y := newYard(t, "")
	var err error
	y.sink, err = s.sinks(t).For(t.Context(), s.sync(t, "{file: wrong}", ""))
	require.NoError(t, err)
	_, err = y.sink.Upload(t.Context(), y.rt, y.origin(y.container()))
	require.Error(t, err)
	require.NotContains(t, err.Error(), s3Secret)
	_, err = y.sink.Download(t.Context(), y.rt, snapshot.Destination{Owner: y.owner, Container: y.container()})
	require.Error(t, err)
	require.NotContains(t, err.Error(), s3Secret)
}
