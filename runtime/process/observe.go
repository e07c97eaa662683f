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

// Protocols is runtime.Observer.Protocols.
func (r *Runtime) Protocols() runtime.Protocols { return shim.Protocols() }

// Status is runtime.Observer.Status.
func (r *Runtime) Status(_ context.Context, id string) (runtime.Status, error) {
	p, err := r.find(id)
	if err != nil {
		return runtime.Status{}, fmt.Errorf("status: %w", err)
	}
	return p.status()
}

func (p place) status() (runtime.Status, error) {
	c, err := p.read()
	if err != nil {
		return runtime.Status{}, err
	}
	version, _ := shim.Protocols().Parse(c.Protocol) // 0 when it is none
	status := runtime.Status{
		ID: p.id, Workload: c.Workload, Revision: c.Revision, State: runtime.Created, Protocol: version,
		Endpoint: runtime.Endpoint{Host: host, Ports: c.Ports},
	}
	init, started, err := p.init()
	if err != nil {
		return runtime.Status{}, err
	}
	if started && init.Alive() {
		status.State = runtime.Running
	} else if started {
		status.State, status.ExitCode = runtime.Exited, p.exitCode()
	}
	return status, nil
}

// host is where the ports are: a container has the machine's own network.
const host = "127.0.0.1"

// List is runtime.Observer.List. A container whose making or removing was cut
// off is listed as one that has ended, so that it will be destroyed.
func (r *Runtime) List(context.Context) ([]runtime.Status, error) {
	entries, err := os.ReadDir(r.containersDir())
	if err != nil {
		return nil, unavailable("list containers", err)
	}
	all := make([]runtime.Status, 0, len(entries))
	for _, e := range entries {
		id := strings.TrimSuffix(e.Name(), goneSuffix)
		status, err := r.place(id).status()
		if errors.Is(err, runtime.ErrNotFound) {
			status, err = runtime.Status{ID: id, State: runtime.Exited, ExitCode: killedCode}, nil
			if _, gone := os.Stat(r.containersDir() + "/" + e.Name()); gone != nil {
				continue // it went while we looked
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
// process prints: nothing here cuts it.
func (r *Runtime) Logs(_ context.Context, id string, since time.Time, tail int64) (io.ReadCloser, error) {
	p, err := r.find(id)
	if err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	f, err := os.Open(p.log())
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil // it was never started
	}
	if err != nil {
		return nil, unavailable("read the log of "+id, err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, size-tail, p.printedBefore(since)), io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, unavailable("read the log of "+id, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, tail), f}, nil
}

// markLog notes how long the log is: its lines have no times.
func (p place) markLog() error {
	info, err := os.Stat(p.log())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(p.logMark(), fmt.Appendf(nil, "%d %d", time.Now().UnixNano(), info.Size()), 0o600)
}

// printedBefore is how many bytes of the log are from before the last Wipe, if
// that was before since.
func (p place) printedBefore(since time.Time) int64 {
	text, err := os.ReadFile(p.logMark())
	if err != nil || since.IsZero() {
		return 0
	}
	var at, size int64
	if _, err := fmt.Sscan(string(text), &at, &size); err != nil || at > since.UnixNano() {
		return 0
	}
	return size
}
