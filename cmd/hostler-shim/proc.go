package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// process is one line of /proc. The start time tells it from another process
// that later has the same number.
type process struct {
	pid    int
	parent int
	group  int
	start  uint64
	dead   bool // a zombie, with no thread alive
}

// identity of a process for as long as the machine runs.
type processID struct {
	pid   int
	start uint64
}

func (p process) id() processID { return processID{p.pid, p.start} }

// scan lists every process that can be seen, without the ones that end while
// it looks.
func scan() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make([]process, 0, len(names))
	buf := make([]byte, 1024)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid, buf); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// readProcess reads /proc/PID/stat into buf, which has to hold the whole line.
func readProcess(pid int, buf []byte) (process, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return process{}, err
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

func parseStat(pid int, line []byte) (process, error) {
	// The name stands in brackets and may itself hold brackets and blanks.
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= statStart {
		return process{}, errBadStat
	}
	parent, err1 := strconv.Atoi(string(fields[statParent]))
	group, err2 := strconv.Atoi(string(fields[statGroup]))
	threads, err3 := strconv.Atoi(string(fields[statThreads]))
	start, err4 := strconv.ParseUint(string(fields[statStart]), 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return process{}, fmt.Errorf("%w: %w", errBadStat, err)
	}
	state := fields[statState][0]
	// A process whose first thread has ended shows as a zombie while its other
	// threads run on: a place to hide.
	dead := (state == 'Z' || state == 'X') && threads <= 1
	return process{pid: pid, parent: parent, group: group, start: start, dead: dead}, nil
}

// below picks the live processes that descend from top.
func below(all []process, top int) []process {
	children := make(map[int][]process, len(all))
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	next := []int{top}
	for len(next) > 0 {
		parent := next[0]
		next = next[1:]
		for _, p := range children[parent] {
			next = append(next, p.pid)
			if !p.dead {
				found = append(found, p)
			}
		}
		delete(children, parent) // a torn picture may hold a circle
	}
	return found
}

// signal sends sig to exactly this process, never to a later one of the same
// number.
func (p process) signal(sig unix.Signal) {
	if p.pid <= 1 {
		return
	}
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		p.signalByNumber(sig) // an old kernel, or one that forbids it to us
		return
	}
	if err != nil {
		return // it is gone
	}
	defer unix.Close(fd)
	if p.isSame() {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may end meanwhile
	}
}

func (p process) signalByNumber(sig unix.Signal) {
	if p.isSame() {
		_ = unix.Kill(p.pid, sig)
	}
}

// isSame says whether the number still belongs to this process.
func (p process) isSame() bool {
	now, err := readProcess(p.pid, make([]byte, 1024))
	return err == nil && now.start == p.start
}
