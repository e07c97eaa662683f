package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// readingAttacks continue while a release reads the state: what it has checked
// is replaced before it opens it, and the reading process is stopped.
func readingAttacks() []attack {
	row := func(name, text string) attack {
		return attack{Name: name, Text: text, State: true, run: func(t tenant) error { return t.startChild(name) }}
	}
	return []attack{
		row("read-swap", "exchange a directory of the state with a link to what only root may read, continuously"),
		row("read-swap-state", "exchange the state itself with a link to what only root may read, continuously"),
		row("read-swap-file", "exchange a file with a FIFO and a link, continuously"),
		row("read-grow", "let a file grow faster than it can be read"),
		row("read-shrink", "let large files shrink while they are read"),
		row("read-lease", "hold leases on the state's files, which those who open them wait for"),
		row("read-stop", "stop every tool that reads the state"),
		row("read-kill", "kill every tool that reads the state"),
		row("read-limit", "limit the file size, memory and processor time of every tool that reads the state"),
		row("read-starve", "use all CPU time and all process numbers while the state is read"),
		row("read-churn", "create, rename and remove directories continuously"),
	}
}

func readingChildren() map[string]func(t tenant, ready func()) {
	return map[string]func(t tenant, ready func()){
		"read-swap":       func(_ tenant, ready func()) { swap(stateDir+"/swapped", ready) },
		"read-swap-state": func(_ tenant, ready func()) { swap(stateDir, ready) },
		"read-swap-file":  swapFile,
		"read-grow":       grow,
		"read-shrink":     shrink,
		"read-lease":      leaseState,
		"read-stop":       func(_ tenant, ready func()) { ready(); loop(func() { signalTools(unix.SIGSTOP) }) },
		"read-kill":       func(_ tenant, ready func()) { ready(); loop(func() { signalTools(unix.SIGKILL) }) },
		"read-limit":      limitTools,
		"read-starve":     starve,
		"read-churn":      churn,
		"flood":           flood,
		"garbage":         garbage,
		"bridges":         stallBridges,
		"squat":           squatting,
		"relay":           relaying,
		"end-bridges":     endBridges,
	}
}

// swap exchanges a directory with a link.
func swap(path string, ready func()) {
	_ = os.MkdirAll(path, 0o755)
	for i := range 200 {
		_ = os.WriteFile(fmt.Sprintf("%s/f%d", path, i), []byte("x"), 0o644)
	}
	_ = os.Symlink("/rootonly", "/data/swapped-link")
	ready()
	loop(func() {
		_ = unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, "/data/swapped-link", unix.RENAME_EXCHANGE)
	})
}

func swapFile(_ tenant, ready func()) {
	_ = os.WriteFile(stateDir+"/file", make([]byte, 2<<20), 0o644)
	_ = unix.Mkfifo("/data/fifo", 0o666)
	_ = os.Symlink("/rootonly/key", "/data/link")
	ready()
	loop(func() {
		for _, other := range []string{"/data/fifo", "/data/link"} {
			_ = unix.Renameat2(unix.AT_FDCWD, stateDir+"/file", unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
		}
	})
}

// maxGrown bounds the use of a disk.
const maxGrown = 256 << 20

func grow(_ tenant, ready func()) {
	f, err := os.OpenFile(stateDir+"/grows", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	ready()
	piece, n := make([]byte, 256<<10), 0
	loop(func() {
		if n < maxGrown {
			_, _ = f.Write(piece)
			n += len(piece)
		}
	})
}

func shrink(_ tenant, ready func()) {
	for i := range 8 {
		_ = sparse(fmt.Sprintf("%s/shrinks-%d", stateDir, i), 8<<20)
	}
	ready()
	loop(func() {
		for i := range 8 {
			path := fmt.Sprintf("%s/shrinks-%d", stateDir, i)
			_ = os.Truncate(path, 1<<20)
			_ = os.Truncate(path, 8<<20)
		}
	})
}

func leaseState(_ tenant, ready func()) {
	for i := range 8 {
		f, err := os.Create(fmt.Sprintf("%s/leased-%d", stateDir, i))
		if err != nil {
			return
		}
		defer f.Close()
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	}
	ready()
	hang()
}

// toolPIDs returns the processes of the shim that read or write files.
func toolPIDs() []int {
	var all []int
	for _, pid := range shimPIDs() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && pid != 1 && strings.Contains(string(b), "tar") {
			all = append(all, pid)
		}
	}
	return all
}

func signalTools(sig syscall.Signal) {
	for _, pid := range toolPIDs() {
		_ = unix.Kill(pid, sig)
	}
}

func limitTools(_ tenant, ready func()) {
	ready()
	low := unix.Rlimit{Cur: 1, Max: 1}
	loop(func() {
		for _, pid := range toolPIDs() {
			for _, which := range []int{unix.RLIMIT_CPU, unix.RLIMIT_FSIZE, unix.RLIMIT_AS, unix.RLIMIT_NOFILE} {
				_ = unix.Prlimit(pid, which, &low, nil)
			}
		}
	})
}

func starve(t tenant, ready func()) {
	_ = os.WriteFile(stateDir+"/large", make([]byte, 4<<20), 0o644)
	_ = t.startChild("busy")
	exhaustPIDs(t, ready)
}

func churn(_ tenant, ready func()) {
	_ = os.MkdirAll(stateDir+"/a/b/c", 0o755)
	ready()
	n := 0
	loop(func() {
		n++
		_ = os.MkdirAll(fmt.Sprintf("%s/a/b/c/%d/x/y", stateDir, n%50), 0o755)
		_ = os.Rename(stateDir+"/a/b", stateDir+"/a/z")
		_ = os.RemoveAll(stateDir + "/a/z")
		_ = os.MkdirAll(stateDir+"/a/b/c", 0o755)
	})
}
