// Command threads forbids a worker of the shim to write files, while one of the
// worker's threads has the user of this program: the limits of a thread are those
// of its process.
//
//	threads SECONDS
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		for _, worker := range workers() {
			for range 200 {
				if limitByThread(worker) {
					time.Sleep(5 * time.Second) // the worker of this program stays busy
					return
				}
			}
		}
	}
	os.Exit(1)
}

// limitByThread reports whether a thread of the process could be limited.
func limitByThread(pid int) bool {
	tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err == nil && unix.Prlimit(tid, unix.RLIMIT_FSIZE, &unix.Rlimit{}, nil) == nil {
			fmt.Printf("limited process %d by its thread %d\n", pid, tid)
			return true
		}
	}
	return false
}

// workers are the children of process 1 with the shim's user, but for the one
// that runs this program.
func workers() []int {
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 || pid == os.Getppid() {
			continue
		}
		text, _ := os.ReadFile("/proc/" + e.Name() + "/status")
		status := string(text)
		if strings.Contains(status, "\nPPid:\t1\n") && strings.Contains(status, "\nUid:\t64997\t") {
			found = append(found, pid)
		}
	}
	return found
}
