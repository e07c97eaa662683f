package main

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// oomFiles count the processes of the container that the kernel has killed
// because it ran out of memory: of cgroup v2 and of v1.
var oomFiles = map[string]int64{
	"/sys/fs/cgroup/memory.events":             unix.CGROUP2_SUPER_MAGIC,
	"/sys/fs/cgroup/memory/memory.oom_control": unix.CGROUP_SUPER_MAGIC,
}

// oomCounter reads the container's counter. The zero value, and one of a
// container without a counter, read nothing.
type oomCounter struct {
	fd     int
	isOpen bool
}

// openOOMCounter opens the counter, for as long as the process runs. A file that
// is not the kernel's, which a tenant could have created, is none.
func openOOMCounter(files map[string]int64) oomCounter {
	for path, filesystem := range files {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		var st unix.Statfs_t
		if unix.Fstatfs(fd, &st) == nil && int64(st.Type) == filesystem { //nolint:unconvert // its type depends on the architecture
			return oomCounter{fd, true}
		}
		unix.Close(fd)
	}
	return oomCounter{}
}

// read returns the number of processes that were killed, and whether it is
// known.
func (c oomCounter) read() (killed uint64, ok bool) {
	if !c.isOpen {
		return 0, false
	}
	var buf [4 << 10]byte // longer than either file
	n, err := unix.Pread(c.fd, buf[:], 0)
	if err != nil {
		return 0, false
	}
	return parseOOMKills(buf[:n])
}

// parseOOMKills returns the value of the line oom_kill.
func parseOOMKills(text []byte) (killed uint64, ok bool) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if string(name) == "oom_kill" {
			killed, err := strconv.ParseUint(string(value), 10, 64)
			return killed, err == nil
		}
	}
	return 0, false
}
