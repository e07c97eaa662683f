package process

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// Watch is runtime.Observer.Watch. It sleeps until the kernel reports that a
// process has exited or that a new one was recorded. It needs Linux 5.3.
func (r *Runtime) Watch(ctx context.Context, ready func(), onExit func(runtime.Exit)) error {
	w, err := r.newWatcher()
	if err != nil {
		return unavailableError("watch containers", err)
	}
	defer w.closeFDs()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { w.wake(); close(woken) })
	defer func() {
		if !stop() {
			<-woken // it writes to a descriptor that is about to be closed
		}
	}()
	if err := w.watchAll(); err != nil {
		return unavailableError("watch containers", err)
	}
	w.exited = nil // List finds them
	ready()
	for ctx.Err() == nil {
		if err := w.poll(onExit); err != nil {
			return unavailableError("watch containers", err)
		}
	}
	return nil
}

// watcher holds one descriptor for each process that it watches.
type watcher struct {
	r         *Runtime
	inotifyFD int // inotify: of the directory of the records
	wakeFD    int // eventfd: the context has ended
	watched   map[proctree.ID]watched
	found     map[string]proctree.ID // the last recorded process of each container
	exited    []string               // containers whose process had exited when it was found
}

type watched struct {
	container string
	pidfd     int
}

func (r *Runtime) newWatcher() (*watcher, error) {
	inotifyFD, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	_, err = unix.InotifyAddWatch(inotifyFD, r.recordsDir(), unix.IN_MOVED_TO)
	if err != nil {
		unix.Close(inotifyFD)
		return nil, err
	}
	wakeFD, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(inotifyFD)
		return nil, err
	}
	return &watcher{r: r, inotifyFD: inotifyFD, wakeFD: wakeFD, watched: make(map[proctree.ID]watched), found: make(map[string]proctree.ID)}, nil
}

func (w *watcher) closeFDs() {
	unix.Close(w.inotifyFD)
	unix.Close(w.wakeFD)
	for _, one := range w.watched {
		unix.Close(one.pidfd)
	}
}

// wake ends a poll.
func (w *watcher) wake() {
	_, _ = unix.Write(w.wakeFD, binary.NativeEndian.AppendUint64(nil, 1))
}

// watchAll watches every recorded process that is running.
func (w *watcher) watchAll() error {
	entries, err := os.ReadDir(w.r.recordsDir())
	if err != nil {
		return err
	}
	recorded := make(map[string]bool, len(entries))
	for _, e := range entries {
		if filepath.Ext(e.Name()) != "" {
			continue // a record that is being written
		}
		recorded[e.Name()] = true
		if err := w.watch(e.Name()); err != nil {
			return err
		}
	}
	maps.DeleteFunc(w.found, func(container string, _ proctree.ID) bool { return !recorded[container] })
	return nil
}

// watch watches the recorded process of a container, unless it was found before. It may
// have exited since it was recorded.
func (w *watcher) watch(container string) error {
	id, ok, err := w.r.paths(container).readInit()
	if err != nil || !ok || w.found[container] == id {
		return err
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("watch process %d: %w", id.PID, err)
	}
	w.found[container] = id
	if err != nil {
		w.exited = append(w.exited, container)
		return nil
	}
	if now, err := proctree.Read(id.PID); err != nil || now.ID != id {
		unix.Close(fd) // another process has the number
		w.exited = append(w.exited, container)
		return nil
	}
	w.watched[id] = watched{container: container, pidfd: fd}
	return nil
}

// poll sleeps until an event occurs and handles it.
func (w *watcher) poll(onExit func(runtime.Exit)) error {
	fds := []unix.PollFd{
		{Fd: int32(w.wakeFD), Events: unix.POLLIN}, {Fd: int32(w.inotifyFD), Events: unix.POLLIN},
	}
	ids := make([]proctree.ID, 0, len(w.watched))
	for id, one := range w.watched {
		fds = append(fds, unix.PollFd{Fd: int32(one.pidfd), Events: unix.POLLIN})
		ids = append(ids, id)
	}
	if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	// First what has started: who is told of an exit may end it, and its record with it.
	if fds[1].Revents != 0 {
		// The content of the events is not needed: a scan finds all new records.
		buf := make([]byte, 4096)
		for n := 1; n > 0; {
			n, _ = unix.Read(w.inotifyFD, buf) // EAGAIN when there is no more
		}
		if err := w.watchAll(); err != nil {
			return err
		}
	}
	for i, id := range ids {
		if fds[i+2].Revents == 0 {
			continue
		}
		one := w.watched[id]
		delete(w.watched, id)
		unix.Close(one.pidfd)
		w.exited = append(w.exited, one.container)
	}
	for _, container := range w.exited {
		onExit(runtime.Exit{ID: container, ExitCode: w.r.paths(container).exitCode(), Time: time.Now()})
	}
	w.exited = nil
	return nil
}
