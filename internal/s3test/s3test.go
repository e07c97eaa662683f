// Package s3test is a real S3 server for tests, on a folder of the test's own.
// It knows nothing of Hostler. `make s3-tool` builds the server; where it was
// not built the test is skipped, or fails if REQUIRE names s3.
package s3test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/servertest"
)

// What the server lets in, and the one bucket that it has at first.
const (
	Key    = "key"
	Secret = "a-secret-that-nobody-may-see" //nolint:gosec // of servers that live as long as a test
	Bucket = "bucket"
)

// Start starts a server, which lives as long as the test, and says where it
// listens: a host and a port. The test's package lies directly below the
// module's root.
func Start(tb testing.TB) string {
	tb.Helper()
	home := tb.TempDir()
	buckets := filepath.Join(home, "s3") // a folder each
	require.NoError(tb, os.MkdirAll(filepath.Join(buckets, Bucket), 0o700))
	return servertest.Start(tb, servertest.Server{
		Name: "s3", Tool: "versitygw",
		Env: []string{"ROOT_ACCESS_KEY=" + Key, "ROOT_SECRET_KEY=" + Secret, "HOME=" + home},
		Args: func(host, port string) []string {
			return []string{"--port", net.JoinHostPort(host, port), "posix", buckets}
		},
	})
}
