package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// Destroy is runtime.Lifecycle.Destroy. Before it kills anything it renames the
// directory: a concurrent start notices that and gives up, or has already
// recorded its process.
func (r *Runtime) Destroy(ctx context.Context, id string) error {
	if !idPattern.MatchString(id) {
		return nil // it cannot be ours
	}
	p := r.paths(id)
	if _, _, err := p.readCompatible(); errors.Is(err, runtime.ErrNewer) {
		return fmt.Errorf("destroy container %s: %w", id, err)
	}
	if err := p.stop(ctx); err != nil {
		return fmt.Errorf("destroy container %s: %w", id, err)
	}
	err := os.Rename(p.dir, p.destroyingDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return unavailableError("destroy container "+id, err)
	}
	if err := p.killAll(); err != nil {
		return fmt.Errorf("destroy container %s: %w", id, err)
	}
	r.sessions.Remove(id)
	if err := removeAll(p.destroyingDir()); err != nil {
		return unavailableError("destroy container "+id, err)
	}
	if err := os.Remove(p.record); err != nil && !errors.Is(err, os.ErrNotExist) {
		return unavailableError("destroy container "+id, err)
	}
	return nil
}

// stopMargin is how much longer than a grace period the server waits, because
// the clock is the shim's.
const stopMargin = 2 * time.Second

// stop asks init to exit, which ends the main process first, and waits for it.
// The clock of the grace period is init's; an init that does not exit is killed
// with the rest.
func (p containerPaths) stop(ctx context.Context) error {
	c, err := p.readRecord()
	if errors.Is(err, runtime.ErrNotFound) || err == nil && c.StopGracePeriod <= 0 {
		return nil
	}
	if err != nil {
		return err
	}
	initID, err := p.runningInit()
	if errors.Is(err, runtime.ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	initID.Signal(unix.SIGTERM)
	limit := time.NewTimer(c.StopGracePeriod + stopMargin)
	defer limit.Stop()
	ticker := time.NewTicker(stopPollInterval)
	defer ticker.Stop()
	for initID.IsAlive() {
		select {
		case <-ticker.C:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// stopPollInterval is the interval of the checks whether a process has exited.
const stopPollInterval = 5 * time.Millisecond

// killAll kills init, its descendants, and every process that still names the
// container in its environment: those are left if another process kills init.
func (p containerPaths) killAll() error {
	initID, known, err := p.readInit()
	if err != nil || !known {
		return err
	}
	killed := proctree.Kill(shim.KillTimeout, func() ([]proctree.Process, error) {
		return p.processes(initID)
	})
	if !killed {
		return fmt.Errorf("%w: its processes survive SIGKILL", runtime.ErrUnavailable)
	}
	return nil
}

func (p containerPaths) processes(initID proctree.ID) ([]proctree.Process, error) {
	all, err := proctree.Scan()
	if err != nil {
		return nil, err
	}
	mark := []byte(rootEnv + "=" + p.rootDir() + "\x00")
	found := make(map[proctree.ID]proctree.Process)
	for _, proc := range all {
		if proc.Zombie || proc.PID == os.Getpid() || proc.ID != initID && !hasMark(proc.PID, mark) {
			continue
		}
		found[proc.ID] = proc
		for _, child := range proctree.FilterDescendants(all, proc.PID) {
			found[child.ID] = child
		}
	}
	list := make([]proctree.Process, 0, len(found))
	for _, proc := range found {
		list = append(list, proc)
	}
	return list, nil
}

// hasMark reports whether an environment has the mark. If the environment is not
// readable, the process belongs to another user and is not ours.
func hasMark(pid int, mark []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, env...), append([]byte{0}, mark...))
}

// removeAll removes a directory, also if directories in it are closed to us.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // RemoveAll reports what this could not do
		}
		return nil
	})
	return os.RemoveAll(path)
}
