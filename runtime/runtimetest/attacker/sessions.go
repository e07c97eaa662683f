package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func sessionAttacks() []attack {
	startsChild := func(name string) func(tenant) error {
		return func(t tenant) error { return t.startChild(name) }
	}
	return []attack{
		{Name: "session-flood", Text: "keep more connections to the shim than it accepts", run: startsChild("flood")},
		{Name: "session-garbage", Text: "send the shim frames of every length and kind", run: startsChild("garbage")},
		{Name: "session-stall", Text: "begin sessions through the shim's own bridge and stall", run: startsChild("bridges")},
		{Name: "session-squat", Parting: true, Text: "replace the shim's socket with one of the tenant and end its bridges", run: squat},
		{Name: "session-remove", Parting: true, Text: "remove the shim's socket and end its bridges", run: func(tenant) error {
			return errors.Join(anySucceeded(os.Remove(shimSock), os.Rename(shimSock, "/tmp/sock")), killBridges())
		}},
		{Name: "session-relay", Parting: true, Text: "stand between the bridge and the shim with two sockets", run: func(t tenant) error {
			if err := os.Rename(shimSock, shimRun+"/true"); err != nil {
				return err
			}
			return errors.Join(t.startChild("relay"), killBridges())
		}},
		{Name: "session-steal", Text: "read what the server sends to the bridge, and write answers", run: steal},
		{Name: "session-end", Parting: true, Text: "kill every bridge as soon as it starts, for some seconds", run: startsChild("end-bridges")},
		{Name: "session-close", Parting: true, Text: "close the directory of the shim's socket to every user", run: func(tenant) error {
			return errors.Join(anySucceeded(os.Chmod(shimRun, 0), os.Chmod(shimSock, 0), os.Chmod(shimDir, 0)), killBridges())
		}},
	}
}

// killBridges kills the shim's processes other than process 1.
func killBridges() error {
	var all []error
	for _, pid := range shimPIDs() {
		if pid != 1 {
			all = append(all, unix.Kill(pid, unix.SIGKILL))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return anySucceeded(all...)
}

// shimAddress returns where the shim listens: an abstract address if it runs as
// its tenant's user.
func shimAddress() string {
	if os.Geteuid() != 0 {
		if c, err := net.Dial("unix", shimAbstract); err == nil {
			c.Close()
			return shimAbstract
		}
	}
	return shimSock
}

func flood(_ tenant, ready func()) {
	var all []net.Conn
	address := shimAddress()
	for range 300 {
		if c, err := net.Dial("unix", address); err == nil {
			all = append(all, c)
		}
	}
	ready()
	loop(func() {
		if c, err := net.Dial("unix", address); err == nil {
			all = append(all, c)
		}
		if len(all) > 2000 {
			all[0].Close()
			all = all[1:]
		}
	})
}

func garbage(_ tenant, ready func()) {
	ready()
	n, address := 0, shimAddress()
	loop(func() {
		c, err := net.Dial("unix", address)
		if err != nil {
			return
		}
		defer c.Close()
		n++
		head := []byte{byte(n), byte(n >> 8), byte(n >> 16), 0xff, byte(n), '{', '}', 0, 1, 2, 3}
		_, _ = c.Write(head)
		_, _ = c.Write(make([]byte, n%70_000))
	})
}

// stallBridges runs the shim's program as the engine does, and sends nothing.
func stallBridges(_ tenant, ready func()) {
	for range 20 {
		c := exec.Command(shimBin+"/shim", "connect")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		in, err := c.StdinPipe()
		if err != nil || c.Start() != nil {
			break
		}
		_, _ = in.Write([]byte{0, 0, 0, 40})
	}
	ready()
	hang()
}

func squat(t tenant) error {
	if shimAddress() == shimAbstract {
		_, err := listenUnix(shimAbstract)
		return errors.Join(err, killBridges())
	}
	if err := anySucceeded(os.Remove(shimSock), os.Rename(shimSock, shimSock+".old")); err != nil {
		return err
	}
	return errors.Join(t.startChild("squat"), killBridges())
}

func squatting(t tenant, ready func()) {
	l, err := listenUnix(shimAddress())
	if err != nil {
		return
	}
	ready()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { // ends with the connection
			_, _ = io.CopyN(c, c, 1<<20)
			fmt.Fprint(c, t.marker)
		}()
	}
}

// relaying passes sessions on to the real socket and keeps a copy.
func relaying(_ tenant, ready func()) {
	l, err := listenUnix(shimSock)
	if err != nil {
		return
	}
	ready()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", shimRun+"/true")
		if err != nil {
			return
		}
		log, _ := os.OpenFile("/tmp/"+stolenLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		go func() { _, _ = io.Copy(to, io.TeeReader(c, log)) }() // both end with the connection
		go func() { _, _ = io.Copy(c, to) }()
	}
}

func steal(t tenant) error {
	var all []error
	for _, pid := range shimPIDs() {
		for fd := range 6 {
			f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), os.O_RDWR|unix.O_NONBLOCK, 0)
			all = append(all, err)
			if err == nil {
				_, _ = f.WriteString(t.marker)
				f.Close()
			}
		}
	}
	return anySucceeded(append(all, errNothing)...)
}

func endBridges(_ tenant, ready func()) {
	ready()
	loop(func() { _ = killBridges() })
}
