package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// engine is a Docker engine, asked in plain HTTP: what Hostler says that it did
// is not believed but looked up.
type engine struct {
	network, address string
	http             *http.Client
}

// localEngine is the engine of this machine, or why there is none.
var localEngine = sync.OnceValues(func() (*engine, error) {
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	return findEngine(host)
})

// findEngine is the engine at an address, or why there is none.
func findEngine(host string) (*engine, error) {
	network, address, ok := strings.Cut(host, "://")
	if !ok || os.Getenv("DOCKER_TLS_VERIFY") != "" {
		return nil, fmt.Errorf("the tests cannot speak to DOCKER_HOST=%s", host)
	}
	e := &engine{network: network, address: address}
	e.http = &http.Client{Timeout: waitTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dial(ctx) },
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return e, e.get(ctx, "/version", &struct{}{})
}

func (e *engine) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, e.network, e.address)
}

func (e *engine) get(ctx context.Context, path string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		return err
	}
	answer, err := e.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the engine answers %s to %s", answer.Status, path)
	}
	return json.NewDecoder(answer.Body).Decode(v)
}

// engineGet asks the engine for something that has to be there.
func engineGet(t testing.TB, path string, v any) {
	t.Helper()
	e, err := localEngine()
	require.NoError(t, err)
	e.mustGet(t, path, v)
}

func (e *engine) mustGet(t testing.TB, path string, v any) {
	t.Helper()
	require.NoError(t, e.get(t.Context(), path, v))
}

// filtered is a path with a filter of the engine's.
func filtered(path, key, value string) string {
	f, _ := json.Marshal(map[string][]string{key: {value}}) // maps of text are always JSON
	return path + "filters=" + url.QueryEscape(string(f))
}

// ofInstance lists the containers of an instance and their volumes. Left out is
// what belongs to no container: the volume with the shim, and the carrier that
// filled it, when the server was killed over that: it never runs, and a server
// that starts ten minutes later removes it.
func ofInstance(t testing.TB, instance string) []string {
	t.Helper()
	e, err := localEngine()
	require.NoError(t, err)
	return e.ofInstance(t, instance)
}

func (e *engine) ofInstance(t testing.TB, instance string) []string {
	t.Helper()
	label := "hostler.instance=" + instance
	var containers []struct{ Names []string }
	e.mustGet(t, filtered("/containers/json?all=1&", "label", label), &containers)
	var volumes struct{ Volumes []struct{ Name string } }
	e.mustGet(t, filtered("/volumes?", "label", label), &volumes)
	var all []string
	for _, c := range containers {
		if !strings.HasPrefix(c.Names[0], "/hostler-carrier-") {
			all = append(all, c.Names...)
		}
	}
	for _, v := range volumes.Volumes {
		if !strings.HasPrefix(v.Name, "hostler-shim-") {
			all = append(all, v.Name)
		}
	}
	return all
}
