package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Descendants returns the live processes that descend from top. It may return
// more than FilterDescendants finds in a Scan, or less: during the scan, a
// process can move from an exited parent to one that was already read. A caller
// that must know that none is left asks the kernel for the children of a
// subreaper.
//
// Its cost depends on the number of descendants, not on the number of processes
// on the machine.
func Descendants(top int) ([]Process, error) {
	var found []Process
	seen := map[int]bool{top: true}
	for next := []int{top}; len(next) > 0; next = next[1:] {
		pids, err := children(next[0])
		if errors.Is(err, errNoChildrenFile) {
			all, err := Scan()
			return FilterDescendants(all, top), err
		}
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			next = append(next, pid)
			if p, err := Read(pid); err == nil && !p.Zombie && !isThread(pid) {
				found = append(found, p)
			}
		}
	}
	return found, nil
}

// errNoChildrenFile means that the kernel was built without
// CONFIG_PROC_CHILDREN.
var errNoChildrenFile = errors.New("kernel does not list children")

// children returns the children of each thread of a process. A process that has
// exited has none.
func children(pid int) ([]int, error) {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	dir, err := os.Open(tasks)
	if err != nil {
		return nil, nil
	}
	defer dir.Close()
	threads, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, nil
	}
	var pids []int
	for _, thread := range threads {
		b, err := os.ReadFile(tasks + "/" + thread + "/children")
		if err != nil {
			if _, statErr := os.Stat(tasks + "/" + thread); statErr == nil {
				return nil, errNoChildrenFile
			}
			continue
		}
		for _, field := range bytes.Fields(b) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				return nil, fmt.Errorf("read the children of %d: %w", pid, err)
			}
			pids = append(pids, child)
		}
	}
	return pids, nil
}

// isThread reports whether pid is a thread other than the first one of its
// process. gVisor lists those among the children, too. It returns false if the
// status cannot be read.
func isThread(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	_, rest, found := bytes.Cut(b, []byte("\nTgid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	leader, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	return found && err == nil && leader != pid
}
