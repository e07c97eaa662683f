// Package s3test runs a real S3 server for tests, in a directory of the test.
// It does not depend on Hostler. `make s3-tool` builds the server; where it is
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

// The credentials and the initial bucket of the server.
const (
	Key    = "key"
	Secret = "a-secret-that-must-not-leak" //nolint:gosec // for servers of tests only
	Bucket = "bucket"
)

// Start starts a server that runs until the test ends, and returns its address:
// host and port. The test's package must be directly below the module's root.
func Start(tb testing.TB) string {
	tb.Helper()
	return StartIn(tb, tb.TempDir())
}

// StartIn is Start for a server that keeps the bucket's objects as files below
// s3/bucket of a directory.
func StartIn(tb testing.TB, home string) string {
	tb.Helper()
	buckets := filepath.Join(home, "s3") // one directory per bucket
	require.NoError(tb, os.MkdirAll(filepath.Join(buckets, Bucket), 0o700))
	return servertest.Start(tb, servertest.Server{
		Name: "s3", Tool: "versitygw",
		Env: []string{"ROOT_ACCESS_KEY=" + Key, "ROOT_SECRET_KEY=" + Secret, "HOME=" + home},
		Args: func(host, port string) []string {
			return []string{"--port", net.JoinHostPort(host, port), "posix", buckets}
		},
	})
}
