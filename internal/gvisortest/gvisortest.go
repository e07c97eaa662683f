// Package gvisortest finds the Docker engine of this machine whose containers
// run under gVisor. It knows where .ci/gvisor keeps the socket of the one that
// it has started; another one is named by HOSTLER_GVISOR_HOST. It leaves to
// others what runs there.
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

// timeout bounds what is asked of the engine.
const timeout = 10 * time.Second

// Host is the address of the engine. Without one the test is skipped, or fails
// when REQUIRE names gvisor.
func Host(tb testing.TB) string {
	tb.Helper()
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

// check returns an error unless an engine answers whose containers run under
// gVisor when nobody says how they should: a test that runs under another
// runtime by mistake proves nothing.
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
		return fmt.Errorf("read what the engine says of itself: %w", err)
	}
	if info.DefaultRuntime != "runsc" {
		return fmt.Errorf("the default runtime of the engine at %s is %q, not runsc", host, info.DefaultRuntime)
	}
	return nil
}
