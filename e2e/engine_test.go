package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// engine is a client of a Docker engine in plain HTTP, independent of Hostler's:
// the tests verify what Hostler reports.
type engine struct {
	network, address string
	http             *http.Client
}

// localEngine returns the engine of this machine, or why there is none.
var localEngine = sync.OnceValues(func() (*engine, error) {
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	return findEngine(host)
})

// findEngine returns the engine at an address, or why there is none.
func findEngine(host string) (*engine, error) {
	network, address, ok := strings.Cut(host, "://")
	if !ok || os.Getenv("DOCKER_TLS_VERIFY") != "" {
		return nil, fmt.Errorf("the tests do not support DOCKER_HOST=%s", host)
	}
	e := &engine{network: network, address: address}
	e.http = &http.Client{Timeout: waitTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dial(ctx) },
	}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	res, err := e.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s from the engine: %s", path, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(v)
}

// exec runs a command in a container as a user, as `docker exec -t` does, and
// returns what it prints.
func (e *engine) exec(ctx context.Context, container, user string, args ...string) (string, error) {
	var created struct {
		ID string `json:"Id"`
	}
	err := e.post(ctx, "/containers/hostler-"+container+"/exec", map[string]any{
		"AttachStdout": true, "AttachStderr": true, "Tty": true, "User": user, "Cmd": args,
	}, func(body io.Reader) error { return json.NewDecoder(body).Decode(&created) })
	if err != nil {
		return "", err
	}
	var out []byte
	err = e.post(ctx, "/exec/"+created.ID+"/start", map[string]any{"Tty": true}, func(body io.Reader) (err error) {
		out, err = io.ReadAll(body)
		return err
	})
	return string(out), err
}

func (e *engine) post(ctx context.Context, path string, body any, read func(io.Reader) error) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine"+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := e.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("post %s to the engine: %s", path, res.Status)
	}
	return read(res.Body)
}

// engineGet gets an object from the engine, which has to exist.
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

// filtered returns a path with a filter in the engine's format.
func filtered(path, key, value string) string {
	f, _ := json.Marshal(map[string][]string{key: {value}}) // maps of text are always JSON
	return path + "filters=" + url.QueryEscape(string(f))
}

// ofInstance lists the containers of an instance and their volumes, without what
// belongs to no container: the volume with the shim, and the carrier that fills
// it. A carrier is left when the server is killed while it exists; it never
// runs, and a server that starts ten minutes later removes it.
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
