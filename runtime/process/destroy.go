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

// Destroy is runtime.Lifecycle.Destroy. Before anything is killed the folder is
// moved away: a start that is under way sees that and gives up, or is on record
// by then.
func (r *Runtime) Destroy(ctx context.Context, id string) error {
	if !idPattern.MatchString(id) {
		return nil // it cannot be ours
	}
	p := r.place(id)
	if _, _, err := p.spoken(); errors.Is(err, runtime.ErrNewer) {
		return fmt.Errorf("destroy container %s: %w", id, err)
	}
	if err := p.stop(ctx); err != nil {
		return fmt.Errorf("destroy container %s: %w", id, err)
	}
	err := os.Rename(p.dir, p.gone())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return unavailable("destroy container "+id, err)
	}
	if err := p.killAll(); err != nil {
		return fmt.Errorf("destroy container %s: %w", id, err)
	}
	r.sessions.Forget(id)
	if err := removeAll(p.gone()); err != nil {
		return unavailable("destroy container "+id, err)
	}
	if err := os.Remove(p.record); err != nil && !errors.Is(err, os.ErrNotExist) {
		return unavailable("destroy container "+id, err)
	}
	return nil
}

// stopMargin is how much longer than a grace period its end is waited for: the
// clock is the shim's.
const stopMargin = 2 * time.Second

// stop asks init to end, which ends the main process first, and waits for it.
// The clock of the grace period is init's; one that does not end is killed with
// the rest.
func (p place) stop(ctx context.Context) error {
	c, err := p.read()
	if errors.Is(err, runtime.ErrNotFound) || err == nil && c.StopGracePeriod <= 0 {
		return nil
	}
	if err != nil {
		return err
	}
	init, err := p.running()
	if errors.Is(err, runtime.ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	init.Signal(unix.SIGTERM)
	limit := time.NewTimer(c.StopGracePeriod + stopMargin)
	defer limit.Stop()
	again := time.NewTicker(stopPause)
	defer again.Stop()
	for init.Alive() {
		select {
		case <-again.C:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// stopPause is how often a process that was asked to end is looked at.
const stopPause = 5 * time.Millisecond

// killAll kills init and all below it, and whoever still names the container
// in its environment: what init leaves behind when somebody kills it.
func (p place) killAll() error {
	init, known, err := p.init()
	if err != nil || !known {
		return err
	}
	gone := proctree.Kill(shim.KillBound, func() ([]proctree.Process, error) {
		return p.processes(init)
	})
	if !gone {
		return fmt.Errorf("%w: its processes outlive SIGKILL", runtime.ErrUnavailable)
	}
	return nil
}

func (p place) processes(init proctree.ID) ([]proctree.Process, error) {
	all, err := proctree.Scan()
	if err != nil {
		return nil, err
	}
	mark := []byte(rootVariable + "=" + p.root() + "\x00")
	found := make(map[proctree.ID]proctree.Process)
	for _, proc := range all {
		if proc.Dead || proc.PID == os.Getpid() || proc.ID != init && !hasMark(proc.PID, mark) {
			continue
		}
		found[proc.ID] = proc
		for _, child := range proctree.Below(all, proc.PID) {
			found[child.ID] = child
		}
	}
	list := make([]proctree.Process, 0, len(found))
	for _, proc := range found {
		list = append(list, proc)
	}
	return list, nil
}

// hasMark reads an environment; that of another user's process is not ours to
// read, nor is the process.
func hasMark(pid int, mark []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, env...), append([]byte{0}, mark...))
}

// removeAll removes a folder, also one in which folders are closed to us.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // RemoveAll tells what this could not do
		}
		return nil
	})
	return os.RemoveAll(path)
}
