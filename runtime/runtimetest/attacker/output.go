package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// outputAttacks change the main process's descriptors: the engine's pipes, which
// may also be those of the next main process.
func outputAttacks() []attack {
	return []attack{
		{Name: "output-flood", Text: "print 30 MB that no line ends", run: func(tenant) error {
			piece := []byte(strings.Repeat("x", 1<<16))
			for range 480 {
				if _, err := os.Stdout.Write(piece); err != nil {
					return err
				}
			}
			return nil
		}},
		{Name: "output-binary", Text: "print every byte, terminal sequences and half characters", run: func(t tenant) error {
			all := make([]byte, 256)
			for i := range all {
				all[i] = byte(i)
			}
			_, err := fmt.Printf("%s\x1b[2J\x1b]0;%s\a\x1b[?1049h\xe2\x82%s", all, t.marker, "\r\n")
			return err
		}},
		{Name: "output-flags", Text: "make the output's pipe non-blocking, packet-wise and signal-driven", run: func(tenant) error {
			return eachOutput(func(fd uintptr) error {
				_, err := unix.FcntlInt(fd, unix.F_SETFL, unix.O_NONBLOCK|unix.O_APPEND|unix.O_ASYNC|unix.O_DIRECT)
				if err != nil {
					_, err = unix.FcntlInt(fd, unix.F_SETFL, unix.O_NONBLOCK)
				}
				return err
			})
		}},
		{Name: "output-size", Text: "shrink the output's pipe to a page", run: func(tenant) error {
			return eachOutput(func(fd uintptr) error {
				_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096)
				return err
			})
		}},
		{Name: "output-owner", Text: "put a message into the owner and the signal of the output's pipe", run: func(tenant) error {
			return eachOutput(func(fd uintptr) error {
				_, err := unix.FcntlInt(fd, unix.F_SETOWN, os.Getpid())
				_, sigErr := unix.FcntlInt(fd, unix.F_SETSIG, 12)
				return anySucceeded(err, sigErr)
			})
		}},
		{Name: "output-mode", Text: "change mode and times of the output's pipe", run: func(tenant) error {
			return eachOutput(func(fd uintptr) error {
				path := fmt.Sprintf("/proc/self/fd/%d", fd)
				return anySucceeded(unix.Fchmod(int(fd), 0o421), unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Sec: forgedTime}, {Sec: forgedTime}}, 0))
			})
		}},
		{Name: "output-lock", Text: "lock the output's pipe, which stays locked while a process holds it", run: func(tenant) error {
			return eachOutput(func(fd uintptr) error { return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
		}, seen: seenOutputLock},
		{Name: "output-held", Text: "leave a process that prints to the same pipes indefinitely", run: func(t tenant) error { return t.startChild("print") }},
		{Name: "output-log", User: "root", Text: "print through the other ends of the output in /proc", run: func(t tenant) error {
			var all []error
			for _, pid := range append(shimPIDs(), os.Getpid()) {
				for fd := 1; fd < 3; fd++ {
					f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), os.O_RDWR|unix.O_NONBLOCK, 0)
					all = append(all, err)
					if err == nil {
						defer f.Close()
						fmt.Fprintln(f, t.marker)
						_, _ = f.Read(make([]byte, 10))
					}
				}
			}
			return anySucceeded(all...)
		}},
	}
}

// eachOutput runs f with every descriptor that the engine has opened.
func eachOutput(f func(fd uintptr) error) error {
	var all []error
	for fd := range uintptr(3) {
		all = append(all, f(fd))
	}
	return anySucceeded(all...)
}

// seenOutputLock opens the pipes again: what an earlier tenant has locked cannot
// be locked.
func seenOutputLock(tenant) []string {
	var seen []string
	for fd := 1; fd < 3; fd++ {
		f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK {
			seen = append(seen, fmt.Sprintf("descriptor %d is locked", fd))
		}
		f.Close()
	}
	return seen
}
