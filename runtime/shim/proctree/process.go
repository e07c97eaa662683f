// Package proctree finds and kills trees of processes on this machine, by what
// /proc tells. It promises to signal exactly the process that it saw, never a
// later one of the same number, and to leave nobody out who forks meanwhile.
package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ID names one process for as long as the machine runs: the start time, in the
// kernel's ticks, tells it from a later process with the same number.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// IsAlive says whether the process runs still.
func (id ID) IsAlive() bool {
	p, err := Read(id.PID)
	return err == nil && p.ID == id && !p.Zombie
}

// Process is one line of /proc.
type Process struct {
	ID
	Parent int
	Group  int
	Zombie bool // a zombie, with no thread alive
}

// Scan lists every process that can be seen, without the ones that end while
// it looks.
func Scan() ([]Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make([]Process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := Read(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// Read looks at one process.
func Read(pid int) (Process, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Process{}, err
	}
	defer unix.Close(fd)
	var buf [1024]byte // more than the longest line
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return Process{}, err
	}
	return parseStat(pid, buf[:n])
}

var errBadStat = errors.New("unreadable /proc/PID/stat")

// The fields of /proc/PID/stat, counted from the one after the name. See
// proc(5).
const (
	statState   = 0
	statParent  = 1
	statGroup   = 2
	statThreads = 17
	statStart   = 19
)

func parseStat(pid int, line []byte) (Process, error) {
	// The name stands in brackets and may itself hold brackets and blanks.
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= statStart {
		return Process{}, errBadStat
	}
	parent, err1 := strconv.Atoi(string(fields[statParent]))
	group, err2 := strconv.Atoi(string(fields[statGroup]))
	threads, err3 := strconv.Atoi(string(fields[statThreads]))
	start, err4 := strconv.ParseUint(string(fields[statStart]), 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Process{}, fmt.Errorf("%w: %w", errBadStat, err)
	}
	state := fields[statState][0]
	// A process whose first thread has ended shows as a zombie while its other
	// threads run on: a place to hide.
	zombie := (state == 'Z' || state == 'X') && threads <= 1
	return Process{ID: ID{PID: pid, Start: start}, Parent: parent, Group: group, Zombie: zombie}, nil
}

// FilterDescendants picks the live processes that descend from top.
func FilterDescendants(all []Process, top int) []Process {
	children := make(map[int][]Process, len(all))
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	next := []int{top}
	for len(next) > 0 {
		parent := next[0]
		next = next[1:]
		for _, p := range children[parent] {
			next = append(next, p.PID)
			if !p.Zombie {
				found = append(found, p)
			}
		}
		delete(children, parent) // a torn picture may hold a circle
	}
	return found
}

// Signal sends sig to exactly this process, if it is there. Process 1 and
// numbers that stand for groups are never meant.
func (id ID) Signal(sig unix.Signal) {
	if id.PID <= 1 {
		return
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// An old kernel, or one that forbids it to us.
		if id.isSame() {
			_ = unix.Kill(id.PID, sig) // it may end meanwhile
		}
		return
	}
	if err != nil {
		return // it is gone
	}
	defer unix.Close(fd)
	if id.isSame() {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may end meanwhile
	}
}

// isSame says whether the number still belongs to this process.
func (id ID) isSame() bool {
	current, err := Read(id.PID)
	return err == nil && current.ID == id
}
