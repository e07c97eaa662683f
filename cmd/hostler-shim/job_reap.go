package main

import "golang.org/x/sys/unix"

// reap waits for every child, ours and those that have become ours, until the
// kernel says that there is none. All descendants come to us in the end, so
// that is the proof that the command is over.
func (j *job) reap() {
	defer close(j.allReaped)
	for {
		// Look first, so that the leader's number is not free before terminate
		// can know.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // ECHILD
		}
		j.reapAll()
	}
}

// reapAll reaps what has ended so far.
func (j *job) reapAll() {
	j.reapMu.Lock()
	defer j.reapMu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == j.leaderPID {
			j.reaped, j.status = true, status
			close(j.leaderExited)
		}
	}
}
