package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// Wipe is runtime.Recycler.Wipe, for the container's own directory. It does not
// cover what a command has done elsewhere on the machine.
func (r *Runtime) Wipe(ctx context.Context, id string, fence int64) error {
	if err := r.Containers.Wipe(ctx, id, fence); err != nil {
		return err
	}
	if err := r.paths(id).writeLogMark(); err != nil {
		return unavailableError("record the log size of "+id, err)
	}
	return nil
}

// ImageHooks is runtime.Images.ImageHooks. There are no images, which is the reason.
func (r *Runtime) ImageHooks(_ context.Context, id string, _ []string, _ int64) (runtime.ImageHooks, error) {
	_, err := r.lookup(id)
	return runtime.ImageHooks{Hooks: []runtime.ImageHook{}, Refused: []string{"the containers of this backend have no image"}}, err
}

// Status is runtime.Observer.Status.
func (r *Runtime) Status(_ context.Context, id string) (runtime.Status, error) {
	p, err := r.lookup(id)
	if err != nil {
		return runtime.Status{}, fmt.Errorf("status: %w", err)
	}
	s, err := p.status()
	s.Node, _ = os.Hostname() //nolint:errcheck // it is then empty
	return s, err
}

func (p containerPaths) status() (runtime.Status, error) {
	c, err := p.readRecord()
	if err != nil {
		return runtime.Status{}, err
	}
	version, _ := shim.Protocols().Parse(c.Protocol) // 0 if it is not a version
	status := runtime.Status{
		ID: p.id, Workload: c.Workload, Revision: c.Revision, State: runtime.Created, Protocol: version,
		Endpoint: runtime.Endpoint{Host: endpointHost, Ports: c.Ports},
	}
	initID, started, err := p.readInit()
	if err != nil {
		return runtime.Status{}, err
	}
	if started && initID.IsAlive() {
		status.State = runtime.Running
	} else if started {
		status.State, status.ExitCode = runtime.Exited, p.exitCode()
	}
	return status, nil
}

// endpointHost is the host of the ports: a container uses the machine's network.
const endpointHost = "127.0.0.1"

// List is runtime.Observer.List. A container whose creation or removal was
// interrupted is listed as exited, so that it will be destroyed.
func (r *Runtime) List(context.Context) ([]runtime.Status, error) {
	entries, err := os.ReadDir(r.containersDir())
	if err != nil {
		return nil, unavailableError("list containers", err)
	}
	all := make([]runtime.Status, 0, len(entries))
	for _, e := range entries {
		id := strings.TrimSuffix(e.Name(), destroyingSuffix)
		status, err := r.paths(id).status()
		if errors.Is(err, runtime.ErrNotFound) {
			status, err = runtime.Status{ID: id, State: runtime.Exited, ExitCode: sigkillExitCode}, nil
			if _, statErr := os.Stat(r.containersDir() + "/" + e.Name()); statErr != nil {
				continue // it was removed in the meantime
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, status)
	}
	return all, nil
}

// Logs is runtime.Observer.Logs. The log is one file that grows as the main
// process prints: nothing truncates it.
func (r *Runtime) Logs(_ context.Context, id string, since time.Time, tail int64) (io.ReadCloser, error) {
	p, err := r.lookup(id)
	if err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	f, err := os.Open(p.logFile())
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil // it was never started
	}
	if err != nil {
		return nil, unavailableError("read the log of "+id, err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, size-tail, p.logOffset(since)), io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, unavailableError("read the log of "+id, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, tail), f}, nil
}

// writeLogMark records the size of the log, because its lines have no times.
func (p containerPaths) writeLogMark() error {
	info, err := os.Stat(p.logFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(p.logMarkFile(), fmt.Appendf(nil, "%d %d", time.Now().UnixNano(), info.Size()), 0o600)
}

// logOffset returns how many bytes of the log are from before the last Wipe,
// unless since is the zero time.
func (p containerPaths) logOffset(since time.Time) int64 {
	text, err := os.ReadFile(p.logMarkFile())
	if err != nil || since.IsZero() {
		return 0
	}
	var at, size int64
	if _, err := fmt.Sscan(string(text), &at, &size); err != nil {
		return 0
	}
	return size
}
