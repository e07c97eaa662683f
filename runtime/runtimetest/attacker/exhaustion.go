package main

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

func exhaustionAttacks() []attack {
	left := func(name string) func(tenant) error {
		return func(t tenant) error { return t.leave(name) }
	}
	return []attack{
		{Name: "fork-storm", Text: "processes that fork processes that fork, faster than they are found", run: left("storm")},
		{Name: "no-pids", Text: "take every process number and hold it", run: left("pids")},
		{Name: "no-descriptors", Text: "open as many descriptors as there can be, of files of the image", run: left("descriptors")},
		{Name: "no-memory", Text: "take memory until the kernel ends somebody", run: left("memory")},
		{Name: "full-tmpfs", Text: "fill the temporary filesystems", run: fillTemporary},
		{Name: "full-deleted", Text: "fill them with files that are removed and open", run: left("deleted")},
		{Name: "no-inodes", Text: "make files in the temporary filesystems until none can be made", run: left("inodes")},
		{Name: "no-ipc", Text: "make as many System V objects as there can be", run: manyIPC},
		{Name: "no-user-limits", User: "other", Text: "use up what the kernel allows a user: signals, queues, watches, pipes", run: left("user-limits")},
		{Name: "busy", Text: "use all of the processor's share with many threads", run: left("busy")},
	}
}

func exhaustionChildren() map[string]func(t tenant, ready func()) {
	return map[string]func(t tenant, ready func()){
		"storm":       storm,
		"pids":        takePIDs,
		"descriptors": takeDescriptors,
		"memory":      takeMemory,
		"deleted":     takeDeleted,
		"inodes":      takeInodes,
		"user-limits": takeUserLimits,
		"busy":        takeProcessor,
	}
}

// Where the container does not bound its processes these do.
const (
	stormSize = 8
	mostPIDs  = 60 // each of a few threads
)

// storm never stands still: a child starts its own and ends.
func storm(t tenant, ready func()) {
	if os.Getenv("STORM") != "" {
		_ = self("exit", "0").Start()
		return
	}
	for {
		for range stormSize {
			c := self("child", "storm", t.marker)
			c.Env = append(os.Environ(), "STORM=1")
			if c.Start() == nil {
				go func() { _ = c.Wait() }() // ends with the child
			}
		}
		ready()
		loopBreath()
	}
}

func loopBreath() { _, _ = unix.Poll(nil, 5) }

func takePIDs(t tenant, ready func()) {
	for range mostPIDs {
		if self("child", "hang", t.marker).Start() != nil {
			break
		}
	}
	ready()
	hang()
}

func takeDescriptors(_ tenant, ready func()) {
	limit := unix.Rlimit{Cur: 16384, Max: 16384}
	_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil)
	for range 16384 {
		if _, err := unix.Open(imageText, unix.O_RDONLY, 0); err != nil {
			break
		}
	}
	ready()
	hang()
}

// takeMemory is ended by the kernel, or somebody else is.
func takeMemory(_ tenant, ready func()) {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0)
	ready()
	var all [64][]byte
	for n := range all { // a GiB at most, where the container bounds nothing
		b := make([]byte, 16<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all[n] = b
	}
	hang()
	goruntime.KeepAlive(all)
}

// mostTemporary bounds what is written where nothing else does.
const mostTemporary = 120 << 20

func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return write(f, mostTemporary)
}

func write(f *os.File, most int) error {
	piece := make([]byte, 1<<20)
	for range most / len(piece) {
		if _, err := f.Write(piece); err != nil {
			if errors.Is(err, unix.ENOSPC) {
				return nil
			}
			return err
		}
	}
	return nil
}

// onlyTemporary are those of the directories that are in memory: a disk is
// never filled.
func onlyTemporary() []string {
	var all []string
	for _, dir := range []string{"/tmp", "/var/tmp", "/run", "/dev/shm"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC {
			all = append(all, dir)
		}
	}
	return all
}

func fillTemporary(tenant) error {
	all := []error{errors.New("there is no temporary filesystem")}
	for _, dir := range onlyTemporary() {
		all = append(all, fill(filepath.Join(dir, "full")))
	}
	return oneOf(all...)
}

func takeDeleted(_ tenant, ready func()) {
	for _, dir := range append(onlyTemporary(), "/data") {
		f, err := os.CreateTemp(dir, "deleted")
		if err != nil {
			continue
		}
		_ = os.Remove(f.Name())
		_ = write(f, 20<<20)
		defer f.Close()
	}
	ready()
	hang()
}

func takeInodes(_ tenant, ready func()) {
	for _, dir := range onlyTemporary() {
		_ = wideIn(dir+"/inodes", 8_000)
	}
	_ = wideIn("/data/inodes", 8_000)
	ready()
	hang()
}

func manyIPC(t tenant) error {
	var all []error
	for range 300 {
		_, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
		all = append(all, err, msgGet(0), semGet(0))
	}
	return oneOf(all...)
}

// takeUserLimits holds what the kernel counts for a user, not for a container.
func takeUserLimits(_ tenant, ready func()) {
	for range 64 {
		fd, err := unix.InotifyInit1(0)
		if err != nil {
			break
		}
		_, _ = unix.InotifyAddWatch(fd, "/app", unix.IN_ALL_EVENTS)
	}
	for range 64 {
		var p [2]int
		if unix.Pipe(p[:]) != nil {
			break
		}
		_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, 1<<20)
	}
	for i := range 64 {
		_, _ = queueOpen(i)
	}
	ready()
	hang()
}

func takeProcessor(_ tenant, ready func()) {
	for range 16 {
		go func() { // ends with the process
			for {
				_ = unix.Getpid()
			}
		}()
	}
	ready()
	hang()
}
