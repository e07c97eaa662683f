package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper is the only one in init who waits for children: those that init has
// started and those that fell to it.
type reaper struct {
	// mu guards waiting, and is held while a child is started, so that none
	// is reaped before somebody waits for it.
	mu      sync.Mutex
	waiting map[int]chan unix.WaitStatus

	// reaped holds a token when children may have been reaped. The one who
	// ends every process waits for it.
	reaped chan struct{}
}

func newReaper() *reaper {
	return &reaper{waiting: make(map[int]chan unix.WaitStatus), reaped: make(chan struct{}, 1)}
}

// start starts a child and gives the channel on which its end will come.
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

// run reaps for as long as the process lives.
func (r *reaper) run() {
	// A signal that comes while another one waits is lost, and need not be
	// kept: each look reaps all there are.
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

// reapAll says whether the kernel knows of no child any more. Then nothing that
// descends from us lives, for orphans become our children.
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
