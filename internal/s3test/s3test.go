// Package s3test is a real S3 server for tests, on a folder of the test's own.
// It knows nothing of Hostler. `make s3-tool` builds the server; where it was
// not built the test is skipped, or fails if REQUIRE names s3.
package s3test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/required"
)

// What the server lets in, and the one bucket that it has at first.
const (
	Key    = "key"
	Secret = "a-secret-that-nobody-may-see" //nolint:gosec // of servers that live as long as a test
	Bucket = "bucket"
)

// patience bounds the start of a server, on a busy machine too.
const patience = time.Minute

// Start starts a server, which lives as long as the test, and says where it
// listens: a host and a port. The test's package lies directly below the
// module's root.
func Start(tb testing.TB) string {
	tb.Helper()
	found, err := filepath.Glob("../bin/tools/versitygw-*")
	require.NoError(tb, err)
	if len(found) == 0 || strings.HasSuffix(found[0], ".part") {
		required.Missing(tb, "s3", "the S3 server is not built: make s3-tool")
	}
	home, address := tb.TempDir(), free(tb)
	buckets := filepath.Join(home, "s3") // a folder each
	require.NoError(tb, os.MkdirAll(filepath.Join(buckets, Bucket), 0o700))
	// The context outlives the test's own: what is cleaned up later uses it.
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, found[0], "--port", address, "posix", buckets) //nolint:gosec // our own tool
	c.Env = []string{"ROOT_ACCESS_KEY=" + Key, "ROOT_SECRET_KEY=" + Secret, "HOME=" + home}
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		cancel()
		require.NoError(tb, err)
	}
	tb.Cleanup(func() {
		cancel()
		_ = c.Wait() // it was killed
		if tb.Failed() {
			tb.Logf("the S3 server said: %s", said.String())
		}
	})
	require.Eventually(tb, func() bool { return answers(address) }, patience, 20*time.Millisecond, "the S3 server does not answer")
	return address
}

// free is an address that nobody listens on.
func free(tb testing.TB) string {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	defer l.Close()
	return l.Addr().String()
}

func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
