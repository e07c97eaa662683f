package main

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

func exhaustionAttacks() []attack {
	startsChild := func(name string) func(tenant) error {
		return func(t tenant) error { return t.startChild(name) }
	}
	return []attack{
		{Name: "fork-storm", Text: "processes that fork processes that fork, faster than they are found", run: startsChild("storm")},
		{Name: "no-pids", Text: "take every process number and hold it", run: startsChild("pids")},
		{Name: "no-descriptors", Text: "open the maximum number of descriptors, of files of the image", run: startsChild("descriptors")},
		{Name: "no-memory", Text: "allocate memory until the kernel kills a process", run: startsChild("memory")},
		{Name: "full-tmpfs", Text: "fill the temporary filesystems", run: fillTemporary},
		{Name: "full-deleted", Text: "fill them with files that are removed and open", run: startsChild("deleted")},
		{Name: "no-inodes", Text: "create files in the temporary filesystems until no inode is left", run: startsChild("inodes")},
		{Name: "no-ipc", Text: "create the maximum number of System V objects", run: manyIPC},
		{Name: "no-user-limits", User: "other", Text: "use up what the kernel allows a user: signals, queues, watches, pipes", run: startsChild("user-limits")},
		{Name: "busy", Text: "use the whole CPU share with many threads", run: startsChild("busy")},
	}
}

func exhaustionChildren() map[string]func(t tenant, ready func()) {
	return map[string]func(t tenant, ready func()){
		"storm":       storm,
		"pids":        exhaustPIDs,
		"descriptors": exhaustDescriptors,
		"memory":      exhaustMemory,
		"deleted":     holdDeletedFiles,
		"inodes":      exhaustInodes,
		"user-limits": exhaustUserLimits,
		"busy":        burnCPU,
	}
}

// The limits that apply if the container does not limit its processes.
const (
	stormSize = 8
	maxPIDs   = 60 // each of a few threads
)

// storm never settles: a child starts its own and exits.
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
		sleepBriefly()
	}
}

func sleepBriefly() { _, _ = unix.Poll(nil, 5) }

func exhaustPIDs(t tenant, ready func()) {
	for range maxPIDs {
		if self("child", "hang", t.marker).Start() != nil {
			break
		}
	}
	ready()
	hang()
}

func exhaustDescriptors(_ tenant, ready func()) {
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

// exhaustMemory is killed by the kernel, or another process is.
func exhaustMemory(_ tenant, ready func()) {
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

// maxTmpfsBytes bounds what is written if nothing else does.
const maxTmpfsBytes = 120 << 20

func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return write(f, maxTmpfsBytes)
}

func write(f *os.File, maxBytes int) error {
	piece := make([]byte, 1<<20)
	for range maxBytes / len(piece) {
		if _, err := f.Write(piece); err != nil {
			if errors.Is(err, unix.ENOSPC) {
				return nil
			}
			return err
		}
	}
	return nil
}

// tmpfsDirs returns the directories that are in memory: a disk is never filled.
func tmpfsDirs() []string {
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
	for _, dir := range tmpfsDirs() {
		all = append(all, fill(filepath.Join(dir, "full")))
	}
	return anySucceeded(all...)
}

func holdDeletedFiles(_ tenant, ready func()) {
	for _, dir := range append(tmpfsDirs(), "/data") {
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

func exhaustInodes(_ tenant, ready func()) {
	for _, dir := range tmpfsDirs() {
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
	return anySucceeded(all...)
}

// exhaustUserLimits holds what the kernel counts for a user, not for a container.
func exhaustUserLimits(_ tenant, ready func()) {
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

func burnCPU(_ tenant, ready func()) {
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
