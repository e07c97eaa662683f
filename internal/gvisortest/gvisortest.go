// Package gvisortest finds the Docker engine of this machine whose containers
// run under gVisor: the one that .ci/gvisor has started, or the one in
// HOSTLER_GVISOR_HOST. It runs no containers itself.
package gvisortest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
)

// timeout bounds a request to the engine.
const timeout = 10 * time.Second

// Host returns the address of the engine. Without one it skips the test, or
// fails it when REQUIRE names gvisor. Only the full suite runs such tests.
func Host(tb testing.TB) string {
	tb.Helper()
	testenv.FullOnly(tb, "gvisor", "tests under gVisor")
	host := address()
	if err := check(tb.Context(), host); err != nil {
		testenv.Skip(tb, "gvisor", "there is no engine with gVisor (.ci/gvisor starts one): %v", err)
	}
	return host
}

func address() string {
	if host := os.Getenv("HOSTLER_GVISOR_HOST"); host != "" {
		return host
	}
	dir := os.Getenv("HOSTLER_GVISOR_DIR")
	if dir == "" {
		dir = "/tmp/hostler-gvisor"
	}
	return "unix://" + filepath.Join(dir, "docker.sock")
}

// check returns an error unless the engine is available and its default runtime
// is gVisor: a test that runs under another runtime by mistake has no value.
func check(ctx context.Context, host string) error {
	network, path, _ := strings.Cut(host, "://")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, path)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/info", nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var info struct{ DefaultRuntime string }
	if err := json.NewDecoder(answer.Body).Decode(&info); err != nil {
		return fmt.Errorf("decode the engine's info: %w", err)
	}
	if info.DefaultRuntime != "runsc" {
		return fmt.Errorf("the default runtime of the engine at %s is %q, not runsc", host, info.DefaultRuntime)
	}
	return nil
}
