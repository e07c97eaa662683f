package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
)

// engine is a client of the Docker engine of this machine in plain HTTP, without
// the proxy that is cut: the tests verify what Hostler reports.
type engine struct {
	network, address string
	http             *http.Client
}

// requireEngine skips the test if there is no engine, and fails it if one is
// required.
func requireEngine(t *testing.T) *engine {
	t.Helper()
	testenv.FullOnly(t, "soak", "misbehaving tenants for a while")
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	network, address, _ := strings.Cut(host, "://")
	e := &engine{network: network, address: address}
	e.http = &http.Client{Timeout: waitTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dial(ctx) },
	}}
	if err := e.ask(t.Context(), http.MethodGet, "/version", &struct{}{}); err != nil {
		testenv.Skip(t, "docker", "no Docker engine answers: %v", err)
	}
	return e
}

func (e *engine) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, e.network, e.address)
}

// ask sends a request to the engine and decodes the response into v, unless that
// is nil.
func (e *engine) ask(ctx context.Context, method, path string, v any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, nil)
	if err != nil {
		return err
	}
	res, err := e.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		output, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		return fmt.Errorf("%s %s of the engine: %s: %s", method, path, res.Status, output)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(v)
}

// found is a container as the engine lists it.
type found struct {
	ID     string `json:"Id"`
	Names  []string
	Labels map[string]string
}

// containers returns an instance's containers in any state, without the carriers,
// which are never started: those that a killed server has left are removed ten
// minutes later.
func (e *engine) containers(ctx context.Context, instance string) ([]found, error) {
	var all []found
	err := e.ask(ctx, http.MethodGet, "/containers/json?all=1&"+labelled(instance), &all)
	return slices.DeleteFunc(all, func(c found) bool { return c.Labels["hostler.role"] == "carrier" }), err
}

// volumes returns an instance's volumes, without the one with the shim, which is
// kept for the next container.
func (e *engine) volumes(ctx context.Context, instance string) ([]string, error) {
	var answer struct{ Volumes []struct{ Name string } }
	err := e.ask(ctx, http.MethodGet, "/volumes?"+labelled(instance), &answer)
	var all []string
	for _, v := range answer.Volumes {
		if !strings.HasPrefix(v.Name, "hostler-shim-") {
			all = append(all, v.Name)
		}
	}
	return all, err
}

// labelled returns a filter by instance in the engine's format.
func labelled(instance string) string {
	f, _ := json.Marshal(map[string][]string{"label": {"hostler.instance=" + instance}}) // always JSON
	return "filters=" + url.QueryEscape(string(f))
}

// kill kills a container without Hostler.
func (e *engine) kill(ctx context.Context, name string) error {
	return e.ask(ctx, http.MethodPost, "/containers/"+name+"/kill", nil)
}

// processes returns the directories in /proc of the processes whose arguments
// contain text. They include those in containers if the engine runs on this
// machine.
func processes(text string) []string {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var all []string
	for _, dir := range dirs {
		// A process may exit during the scan.
		args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && strings.Contains(string(args), text) {
			all = append(all, dir)
		}
	}
	return all
}
