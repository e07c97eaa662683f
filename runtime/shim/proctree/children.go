package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Descendants lists the live processes that descend from top, which may be
// more than Below finds in a Scan, or less: while it looks, a process can move
// from a parent that ends to one that was looked at already. Who has to know
// that nothing is left asks the kernel for the children of a subreaper.
//
// It costs as much as there are descendants, not as the machine has processes.
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

// errNoChildrenFile is a kernel that was built without CONFIG_PROC_CHILDREN.
var errNoChildrenFile = errors.New("the kernel does not list children")

// children are those of each thread of a process. One that is gone has none.
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

// isThread reports whether pid is a thread other than the first of its process,
// which gVisor lists among the children, too. What cannot be read is none.
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
