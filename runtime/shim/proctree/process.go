// Package proctree finds and kills process trees on this machine, based on
// /proc. It signals exactly the process that it saw, never a later one with the
// same PID, and it misses no process that is forked concurrently.
package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ID identifies one process as long as the machine runs: the start time, in
// clock ticks, distinguishes it from a later process with the same PID.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// IsAlive reports whether the process is still running.
func (id ID) IsAlive() bool {
	p, err := Read(id.PID)
	return err == nil && p.ID == id && !p.Zombie
}

// Process is one process as described by /proc.
type Process struct {
	ID
	Parent int
	Group  int
	Zombie bool // a zombie, with no thread alive
}

// Scan returns all visible processes, without those that exit during the scan.
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

// Read returns the state of one process.
func Read(pid int) (Process, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Process{}, err
	}
	defer unix.Close(fd)
	var buf [1024]byte // longer than the longest line
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return Process{}, err
	}
	return parseStat(pid, buf[:n])
}

var errBadStat = errors.New("unreadable /proc/PID/stat")

// The fields of /proc/PID/stat, counted from the first one after the name. See
// proc(5).
const (
	statState   = 0
	statParent  = 1
	statGroup   = 2
	statThreads = 17
	statStart   = 19
)

func parseStat(pid int, line []byte) (Process, error) {
	// The name is in parentheses and may itself contain parentheses and spaces.
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
	// A process whose first thread has exited appears as a zombie while its
	// other threads keep running. A process could hide that way.
	zombie := (state == 'Z' || state == 'X') && threads <= 1
	return Process{ID: ID{PID: pid, Start: start}, Parent: parent, Group: group, Zombie: zombie}, nil
}

// FilterDescendants returns the live processes in all that descend from top.
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
		delete(children, parent) // an inconsistent scan may contain a cycle
	}
	return found
}

// Signal sends sig to exactly this process, if it exists. It ignores process 1
// and numbers that mean groups.
func (id ID) Signal(sig unix.Signal) {
	if id.PID <= 1 {
		return
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// An old kernel, or one that denies it.
		if id.isSame() {
			_ = unix.Kill(id.PID, sig) // the process may have exited
		}
		return
	}
	if err != nil {
		return // the process has exited
	}
	defer unix.Close(fd)
	if id.isSame() {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // the process may have exited
	}
}

// isSame reports whether the PID still belongs to this process.
func (id ID) isSame() bool {
	current, err := Read(id.PID)
	return err == nil && current.ID == id
}
