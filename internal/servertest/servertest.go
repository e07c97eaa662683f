// Package servertest starts a server that `make` builds into bin/tools, for one
// test. It does not depend on what the servers do. Where the server is not
// built the test is skipped, or fails if REQUIRE names it.
package servertest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/testenv"
)

// Server is a server that make builds.
type Server struct {
	Name string // in REQUIRE; make NAME-tool builds it
	Tool string // its program in bin/tools, before the version
	Env  []string
	Args func(host, port string) []string
}

// Start starts a server that runs until the test ends, and returns its address:
// host and port. The test's package must be directly below the module's root.
func Start(tb testing.TB, s Server) string {
	tb.Helper()
	found, err := filepath.Glob("../bin/tools/" + s.Tool + "-*")
	require.NoError(tb, err)
	if len(found) == 0 || strings.HasSuffix(found[0], ".part") {
		testenv.Skip(tb, s.Name, "the server is not built: make %s-tool", s.Name)
	}
	address := freeAddress(tb)
	host, port, err := net.SplitHostPort(address)
	require.NoError(tb, err)
	// The context outlives the test's own, because later cleanups use the
	// server.
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, found[0], s.Args(host, port)...) //nolint:gosec // our own tool
	c.Env = s.Env
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		cancel()
		require.NoError(tb, err)
	}
	ended := make(chan error, 1)
	var running errgroup.Group
	running.Go(func() error { ended <- c.Wait(); return nil }) // ends with the context
	tb.Cleanup(func() {
		cancel()
		_ = running.Wait()
		if tb.Failed() {
			tb.Logf("output of the %s server: %s", s.Name, output.String())
		}
	})
	testenv.AwaitTrue(tb, "an answer of the "+s.Name+" server", func() bool {
		require.Empty(tb, ended, "the %s server has ended", s.Name)
		return isListening(address)
	})
	return address
}

// freeAddress returns a loopback address without a listener. It stays free
// until the server listens, because no other process uses that IP address.
func freeAddress(tb testing.TB) string {
	tb.Helper()
	own := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(255), 1+rand.IntN(254))
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", own)
	require.NoError(tb, err)
	defer l.Close()
	return l.Addr().String()
}

func isListening(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
