package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// runDaemon starts init without a parent, so that it outlives the server. It
// records init's process ID before it lets init do anything: if the server is
// killed at any point, either the record exists or init does not run.
//
//	hostler-shim daemon --record FILE --log FILE --alive DIR
func runDaemon(args []string) int {
	set := flag.NewFlagSet("daemon", flag.ContinueOnError)
	record := set.String("record", "", "file for init's process ID")
	log := set.String("log", "", "file for init's output")
	requiredDir := set.String("alive", "", "directory that must exist for init to start")
	if err := set.Parse(args); err != nil {
		return exitUsage
	}
	if err := startDaemon(*record, *log, *requiredDir); err != nil {
		return writeToolError(err)
	}
	return 0
}

// writeToolError prints the last line on stderr of a program that a server has
// started, for shim.ToolError.
func writeToolError(err error) int {
	line, _ := json.Marshal(shim.NewWireError(err)) // strings always encode
	fmt.Fprintln(os.Stderr, string(line))
	return exitFailed
}

func startDaemon(record, log, requiredDir string) error {
	// A server may be killed while this program works, and the next one start another.
	lock, err := os.Open(requiredDir)
	if err != nil {
		return fmt.Errorf("open the container's directory: %w", err)
	}
	defer lock.Close()
	if err := lockFile(lock); err != nil {
		return fmt.Errorf("lock the container's directory: %w", err)
	}
	if isStarted(record) {
		return nil
	}
	out, err := unix.Open(log, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open init's input: %w", err)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return fmt.Errorf("create a socket: %w", err)
	}
	// Unless init has received the byte, it exits when the socket is closed.
	defer ours.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"hostler-shim", "init", "wait"}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(),
		Files: []uintptr{uintptr(null), uintptr(out), uintptr(out), uintptr(theirs)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start init: %w", err)
	}
	unix.Close(theirs)
	p, err := proctree.Read(pid)
	if err != nil {
		return fmt.Errorf("read init's process ID: %w", err)
	}
	if err := writeRecord(record, p); err != nil {
		return fmt.Errorf("write init's record: %w", err)
	}
	// To destroy the container, a server first moves the directory away and
	// then reads the record.
	if _, err := os.Stat(requiredDir); err != nil {
		return errors.Join(err, os.Remove(record))
	}
	if _, err = ours.Write([]byte{1}); err != nil {
		return fmt.Errorf("signal init: %w", err)
	}
	if _, err = ours.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("init did not start, see its log: %w", err)
	}
	return nil
}

// lockFile waits for the lock of a file, which ends with this process.
func lockFile(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isStarted reports whether the recorded init runs.
func isStarted(record string) bool {
	text, err := os.ReadFile(record)
	if err != nil {
		return false
	}
	var id proctree.ID
	return json.Unmarshal(text, &id) == nil && id.IsAlive()
}

func writeRecord(path string, p proctree.Process) error {
	b, err := json.Marshal(p.ID)
	if err != nil {
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// startGate is init's end of the daemon's socket.
type startGate struct{ socket *os.File }

// waitStartGate is init's first step under a daemon: init continues only if it
// is recorded.
func waitStartGate() (startGate, error) {
	unix.CloseOnExec(3)
	g := startGate{os.NewFile(3, "daemon")}
	n, err := g.socket.Read(make([]byte, 1))
	if err != nil || n != 1 {
		return g, fmt.Errorf("init was not recorded: %w", err)
	}
	return g, nil
}

// notifyReady notifies the daemon, if there is one, that init is ready.
func (g startGate) notifyReady() {
	if g.socket != nil {
		_, _ = g.socket.Write([]byte{1}) // the daemon may have been killed
		g.socket.Close()
	}
}
