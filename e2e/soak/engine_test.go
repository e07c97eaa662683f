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

// engine is the Docker engine of this machine, asked in plain HTTP and past
// the link that is cut: what Hostler says is not believed but looked up.
type engine struct {
	network, address string
	http             *http.Client
}

// requireEngine skips, loudly, where no engine answers, and fails where one has to.
func requireEngine(t *testing.T) *engine {
	t.Helper()
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

// ask asks the engine and reads its answer into v, unless that is nil.
func (e *engine) ask(ctx context.Context, method, path string, v any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, nil)
	if err != nil {
		return err
	}
	answer, err := e.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		output, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("the engine answers %s to %s %s: %s", answer.Status, method, path, output)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(v)
}

// found is a container as the engine lists it.
type found struct {
	ID     string `json:"Id"`
	Names  []string
	Labels map[string]string
}

// containers are an instance's, in any state, but for those that were never
// started and only lent their volume: what a killed server has left of these
// goes ten minutes later.
func (e *engine) containers(ctx context.Context, instance string) ([]found, error) {
	var all []found
	err := e.ask(ctx, http.MethodGet, "/containers/json?all=1&"+labelled(instance), &all)
	return slices.DeleteFunc(all, func(c found) bool { return c.Labels["hostler.role"] == "carrier" }), err
}

// volumes are an instance's, but for the one with the shim, which is kept for
// the next container.
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

// labelled is a filter of the engine's.
func labelled(instance string) string {
	f, _ := json.Marshal(map[string][]string{"label": {"hostler.instance=" + instance}}) // always JSON
	return "filters=" + url.QueryEscape(string(f))
}

// kill ends a container behind Hostler's back.
func (e *engine) kill(ctx context.Context, name string) error {
	return e.ask(ctx, http.MethodPost, "/containers/"+name+"/kill", nil)
}

// processes are the folders in /proc of those whose arguments contain a text.
// Those of containers are among them when the engine runs on this machine.
func processes(text string) []string {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var all []string
	for _, dir := range dirs {
		// One that ends while we look is gone.
		args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && strings.Contains(string(args), text) {
			all = append(all, dir)
		}
	}
	return all
}
