package main

import "golang.org/x/sys/unix"

// reap waits for every child, including orphans that have become children,
// until the kernel reports that none is left. All descendants eventually become
// our children, so this proves that the command has ended.
func (j *job) reap() {
	defer close(j.allReaped)
	for {
		// Wait without reaping first, so that the leader's PID is not reused
		// before terminate can know.
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

// reapAll reaps all children that have exited so far.
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
