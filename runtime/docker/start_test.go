package docker

import (
	"archive/tar"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// transportFunc is an engine.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newStubRuntime is a backend on an engine that a handler answers for.
func newStubRuntime(t *testing.T, handle http.HandlerFunc) *Runtime {
	t.Helper()
	api, err := client.NewClientWithOpts(client.WithVersion("1.41"), client.WithHTTPClient(&http.Client{
		Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			answer := httptest.NewRecorder()
			handle(answer, r)
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			return answer.Result(), nil
		}),
	}))
	require.NoError(t, err)
	r := &Runtime{api: api, instance: "i", secret: []byte("secret"), removeSem: make(chan struct{}, 1)}
	r.setSessions(shim.NewSessions(shim.Options{Secret: r.secret}))
	return r
}

// pathStat is a file in the root filesystem of the stub's container.
type pathStat struct {
	mode os.FileMode
	size int64
	link string
}

// serveFile answers for the archive of one of the files, as the engine does.
func serveFile(w http.ResponseWriter, r *http.Request, files map[string]pathStat) {
	f, ok := files[r.URL.Query().Get("path")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	stat, _ := json.Marshal(container.PathStat{Mode: f.mode, Size: f.size})
	w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(stat))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_ = tar.NewWriter(w).WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Linkname: f.link})
	}
}

// The engine is not left to open what a tenant has put in the place of an account
// file: it would wait there with the container locked. Links that an image has
// are followed as the engine does, as far as no tenant can hide where they lead.
func TestStartChecksAccountFiles(t *testing.T) {
	dir, file, link := pathStat{mode: os.ModeDir | 0o755}, pathStat{mode: 0o644, size: 100}, os.ModeSymlink|0o777
	for name, tt := range map[string]struct {
		files    map[string]pathStat
		status   container.ContainerState
		readonly bool
		tainted  bool
	}{
		"files":             {files: map[string]pathStat{"/etc": dir, "/etc/passwd": file, "/etc/group": file}},
		"no files":          {files: map[string]pathStat{"/etc": dir}},
		"no directory":      {},
		"FIFO":              {files: map[string]pathStat{"/etc": dir, "/etc/passwd": {mode: os.ModeNamedPipe}}, tainted: true},
		"FIFO as group":     {files: map[string]pathStat{"/etc": dir, "/etc/passwd": file, "/etc/group": {mode: os.ModeNamedPipe}}, tainted: true},
		"FIFO as directory": {files: map[string]pathStat{"/etc": {mode: os.ModeNamedPipe}}, tainted: true},
		"directory":         {files: map[string]pathStat{"/etc": dir, "/etc/passwd": dir}, tainted: true},
		"large":             {files: map[string]pathStat{"/etc": dir, "/etc/passwd": {size: 1 << 30}}, tainted: true},
		"FIFO of the image": {files: map[string]pathStat{"/etc": {mode: os.ModeNamedPipe}}, status: container.StateCreated},
		"read-only":         {files: map[string]pathStat{"/etc": {mode: os.ModeNamedPipe}}, readonly: true},
		"link": {files: map[string]pathStat{
			"/etc": {mode: link, link: "nix/etc"}, "/nix": dir, "/nix/etc": dir,
			"/nix/etc/passwd": {mode: link, link: "../accounts"}, "/nix/accounts": file,
		}},
		"link to a FIFO": {files: map[string]pathStat{
			"/etc": dir, "/etc/passwd": {mode: link, link: "../x"}, "/x": {mode: os.ModeNamedPipe},
		}, tainted: true},
		"link to nothing": {files: map[string]pathStat{"/etc": dir, "/etc/passwd": {mode: link, link: "/x"}}},
		"endless link":    {files: map[string]pathStat{"/etc": dir, "/etc/passwd": {mode: link, link: "passwd"}}, tainted: true},
		"link to a file of the kernel": {files: map[string]pathStat{
			"/etc": dir, "/etc/passwd": {mode: link, link: "/dev/x"}, "/dev": dir, "/dev/x": file,
		}, tainted: true},
		"link below a volume": {files: map[string]pathStat{
			"/etc": dir, "/etc/passwd": {mode: link, link: "/srv/data/x"}, "/srv": dir, "/srv/data": dir, "/srv/data/x": file,
		}, tainted: true},
	} {
		t.Run(name, func(t *testing.T) {
			started := false
			r := newStubRuntime(t, func(w http.ResponseWriter, req *http.Request) {
				if strings.HasSuffix(req.URL.Path, "/start") {
					started = true
					w.WriteHeader(http.StatusNoContent)
					return
				}
				serveFile(w, req, tt.files)
			})
			if tt.status == "" {
				tt.status = container.StateExited
			}
			err := r.startProcess(t.Context(), container.InspectResponse{
				ContainerJSONBase: &container.ContainerJSONBase{
					ID: "c", State: &container.State{Status: tt.status}, HostConfig: &container.HostConfig{ReadonlyRootfs: tt.readonly},
				},
				Mounts: []container.MountPoint{{Destination: "/srv/data"}},
			})
			require.Equal(t, !tt.tainted, started)
			if tt.tainted {
				require.ErrorIs(t, err, runtime.ErrTainted)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// A start that the engine does not finish ends within a bound. It is the
// container's failure when the engine answers other calls.
func TestStartIsBounded(t *testing.T) {
	for name, answers := range map[string]bool{"the engine answers": true, "the engine does not answer": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newStubRuntime(t, func(w http.ResponseWriter, req *http.Request) {
					if !answers || strings.HasSuffix(req.URL.Path, "/start") {
						<-req.Context().Done()
					}
				})
				start := time.Now()
				err := r.startProcess(t.Context(), container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{
					ID: "c", State: &container.State{Status: container.StateCreated},
				}})
				require.LessOrEqual(t, time.Since(start), startTimeout+callTimeout)
				if answers {
					require.ErrorIs(t, err, runtime.ErrNotRunning)
				} else {
					require.ErrorIs(t, err, runtime.ErrUnavailable)
				}
			})
		})
	}
}

// A container that runs is not started again: it may exit at this moment, with
// files that were not checked.
func TestStartLeavesRunningContainer(t *testing.T) {
	r := newStubRuntime(t, func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/start") {
			t.Error("the engine is told to start it")
		}
		serveContainer(w, container.State{Status: container.StateRunning, Running: true})
	})
	r.setSessions(shim.NewSessions(shim.Options{
		Secret: []byte("secret"), CheckRunning: func(context.Context, string) error { return nil },
		Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) { return nil, 0, runtime.ErrNotRunning },
	}))
	require.ErrorIs(t, r.Start(t.Context(), "c", 1), runtime.ErrNotRunning)
}

// serveContainer answers for the container "c".
func serveContainer(w http.ResponseWriter, state container.State) {
	_ = json.NewEncoder(w).Encode(container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: "engine-c", State: &state},
		Config: &container.Config{Labels: map[string]string{
			labelInstance: "i", labelContainer: "c", labelProtocol: shim.Protocols().Format(),
		}},
	})
}

// A container about which the engine does not answer holds up no call for longer
// than a bound, and the list of all containers not at all.
func TestLockedContainerBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStubRuntime(t, func(w http.ResponseWriter, req *http.Request) {
			if !strings.HasSuffix(req.URL.Path, "/containers/json") {
				<-req.Context().Done()
				return
			}
			var all []container.Summary
			for id, status := range map[string]string{"a": "Exited (137) 5 minutes ago", "b": "Up 5 minutes"} {
				state := map[bool]container.ContainerState{true: container.StateRunning, false: container.StateExited}[id == "b"]
				all = append(all, container.Summary{
					Names: []string{"/" + containerName(id)}, State: state, Status: status, Labels: map[string]string{labelContainer: id},
				})
			}
			all = append(all, container.Summary{Names: []string{"/copy"}, State: container.StateExited, Labels: map[string]string{labelContainer: "a"}})
			_ = json.NewEncoder(w).Encode(all)
		})
		start := time.Now()
		listed, err := r.List(t.Context())
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		require.Len(t, listed, 2)
		for _, s := range listed {
			want := map[string]string{"a": "exited 137", "b": "running 0"}[s.ID]
			require.Equal(t, want, fmt.Sprint(s.State, " ", s.ExitCode))
		}

		for name, call := range map[string]func(context.Context) error{
			"Status":  func(ctx context.Context) error { _, err := r.Status(ctx, "a"); return err },
			"Logs":    func(ctx context.Context) error { _, err := r.Logs(ctx, "a", time.Time{}, 1000); return err },
			"Start":   func(ctx context.Context) error { return r.Start(ctx, "a", 1) },
			"Destroy": func(ctx context.Context) error { return r.Destroy(ctx, "a") },
			"events":  func(ctx context.Context) error { r.isOOMKilled(ctx, "a"); return runtime.ErrUnavailable },
		} {
			start := time.Now()
			require.ErrorIs(t, call(t.Context()), runtime.ErrUnavailable, name)
			require.LessOrEqual(t, time.Since(start), time.Minute, name)
		}
	})
}
