// Command bridge leaves a message for the next tenant in the bridge of a session:
// while the engine starts one, it is root's.
//
//	bridge write MESSAGE SECONDS   put 8 bytes into a limit of the next bridge
//	bridge read                    print that limit of each bridge
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// limit holds the message: how long a process may compute in real time.
const limit = 15 // RLIMIT_RTTIME

func main() {
	if os.Args[1] == "read" {
		read()
		return
	}
	var message [8]byte
	copy(message[:], os.Args[2])
	message[7] &= 0x7f // less than infinity
	seconds, _ := strconv.Atoi(os.Args[3])
	if !write(binary.LittleEndian.Uint64(message[:]), time.Duration(seconds)*time.Second) {
		os.Exit(1)
	}
}

// write waits for a bridge that is being started.
func write(message uint64, timeout time.Duration) bool {
	started := map[int]bool{}
	for _, pid := range bridges() {
		started[pid] = true
	}
	for end := time.Now().Add(timeout); time.Now().Before(end); {
		for _, pid := range bridges() {
			if started[pid] {
				continue
			}
			if unix.Prlimit(pid, limit, &unix.Rlimit{Cur: message, Max: message}, nil) == nil {
				fmt.Println("wrote to process", pid)
				return true
			}
			status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
			started[pid] = strings.Contains(string(status), "\nUid:\t64997\t") // too late
		}
	}
	return false
}

func read() {
	for _, pid := range bridges() {
		limits, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
		for line := range strings.Lines(string(limits)) {
			value, ok := strings.CutPrefix(line, "Max realtime timeout")
			if !ok {
				continue
			}
			n, err := strconv.ParseUint(strings.Fields(value)[0], 10, 64)
			if err == nil {
				fmt.Printf("process %d: %q\n", pid, binary.LittleEndian.AppendUint64(nil, n))
			}
		}
	}
}

// bridges are the processes whose parent is outside of the container, but for the
// first.
func bridges() []int {
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 {
			continue
		}
		status, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err == nil && strings.Contains(string(status), "\nPPid:\t0\n") {
			found = append(found, pid)
		}
	}
	return found
}
