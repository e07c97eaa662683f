package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper is the only part of init that waits for children: those that init has
// started and orphans that have become its children.
type reaper struct {
	// mu guards waiting. It is held while a child is started, so that the child
	// is not reaped before its channel is registered.
	mu      sync.Mutex
	waiting map[int]chan unix.WaitStatus

	// reaped holds a token when children may have been reaped. noOtherProcesses
	// waits for it.
	reaped chan struct{}
}

func newReaper() *reaper {
	return &reaper{waiting: make(map[int]chan unix.WaitStatus), reaped: make(chan struct{}, 1)}
}

// start starts a child and returns a channel that receives its exit status.
func (r *reaper) start(f func() (int, error)) (int, <-chan unix.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := f()
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan unix.WaitStatus, 1)
	r.waiting[pid] = ended
	return pid, ended, nil
}

// run reaps children as long as the process runs.
func (r *reaper) run() {
	// A signal that arrives while another one is pending is lost. That is
	// harmless, because each pass reaps all exited children.
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	for {
		r.reapAll()
		select {
		case r.reaped <- struct{}{}:
		default:
		}
		<-died
	}
}

// reapAll reaps all exited children and reports whether the kernel knows of no
// further child. Then no descendant is left, because orphans become our
// children.
func (r *reaper) reapAll() (childless bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return err == unix.ECHILD
		}
		if ended, ok := r.waiting[pid]; ok {
			delete(r.waiting, pid)
			ended <- status
		}
	}
}
