package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// tenants matches the tenants' names in the soak.
var tenants = regexp.MustCompile(`tenant-[0-9]+\.[a-z-]+\.[a-z-]+`)

// traceDirs are the directories in which traces are left.
var traceDirs = []string{"/state", "/tmp", "/dev/shm"}

// inspect reports traces that should not exist, and leaves traces that the next
// tenant must not find.
func inspect() int {
	me := os.Getenv("HOSTLER_TENANT")
	entering := os.Getenv("HOSTLER_POINT") == "post_claim"
	returning := os.Getenv("HOSTLER_CLAIM_SOURCE") == "affinity"
	var found []string
	own := 0
	for _, dir := range traceDirs {
		for _, name := range files(dir) {
			if filepath.Base(name) == "trace-"+me && (!entering || returning) {
				own++
				continue
			}
			found = append(found, "file "+name)
		}
	}
	if own == 0 && (!entering || returning) {
		found = append(found, "none of the tenant's own files")
	}
	found = append(found, inspectProcesses(me, entering)...)
	for _, f := range found {
		fmt.Println("FOUND", f)
	}
	if len(found) > 0 {
		return 97
	}
	return leaveTraces(me)
}

// leaveTraces writes a file in every writable directory.
func leaveTraces(me string) int {
	for i, dir := range traceDirs {
		err := os.WriteFile(filepath.Join(dir, "trace-"+me), []byte(me), 0o600)
		if err != nil && i == 0 {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

// files returns all files below a directory.
func files(dir string) []string {
	var all []string
	// Errors are ignored: an unreadable or missing directory shows no traces.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// inspectProcesses returns the processes with another tenant's name, and those
// that should not exist.
func inspectProcesses(me string, entering bool) []string {
	var found []string
	for _, p := range processes() {
		what := fmt.Sprintf("process %d %q", p.pid, p.args)
		for _, name := range tenants.FindAllString(strings.Join(p.args, " ")+"\n"+p.environment, -1) {
			if name != me {
				found = append(found, what+" of "+name)
			}
		}
		if len(p.args) < 2 || filepath.Base(p.args[0]) != filepath.Base(os.Args[0]) {
			continue
		}
		// A daemon of the main process may run until the release.
		ofMain := len(p.args) > 2 && p.args[2] == "of-main" && !entering
		if p.args[1] != "main" && p.args[1] != "check" && !ofMain {
			found = append(found, what)
		}
	}
	return found
}

// process is a running process.
type process struct {
	pid         int
	args        []string
	environment string
}

// processes returns all visible processes except this one, and those that exit
// during the scan.
func processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(args) == 0 {
			continue // a zombie has no arguments
		}
		environment, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		all = append(all, process{pid, strings.Split(strings.TrimRight(string(args), "\x00"), "\x00"), string(environment)})
	}
	return all
}
