// Command hostler-shim is Hostler's own program inside every container: a
// static binary that needs no shell and no library there.
//
//	hostler-shim init      the first process; see shim.Config for its settings
//	hostler-shim connect   a session: stdin and stdout to init's socket
//	hostler-shim daemon    start init apart from whoever calls
//	hostler-shim install DIR   put this program where a container finds it
//	hostler-shim worker    started by init: runs one command at a time
//	hostler-shim start     started by init: becomes the main process
//	hostler-shim tar DIR   started by init: packs DIR to stdout
//	hostler-shim untar DIR started by init: unpacks stdin into DIR
//
// It promises that a command is over when it says so. A worker is a subreaper:
// whatever a command starts, and however it hides, becomes the worker's child
// when its parent dies, so "no child left" is proof that nothing of it lives.
// Commands and the main process run as the container's user, without a single
// capability and with no way to gain one; init and the workers keep theirs, so
// that they can always end what they have started.
//
// In a container, where it may, each of these programs gives itself a user of
// its own, shim.UID, before it does anything else. No tenant has that user, so
// that none can reach the program: not even root's processes.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	goruntime "runtime"

	"golang.org/x/sys/unix"
)

// version is set by the linker.
var version = "dev"

// The process must stay small: three are in every container. What each has for
// itself, measured idle on amd64: init 1.5 MB, its worker 1.4 MB, the bridge of
// a session 0.8 MB; the program's text is in memory once for all.
const (
	gcPercent   = 50
	memoryLimit = 32 << 20
	processors  = 2 // a system call that waits may hold one for a moment
)

// exitUsage and exitFailed are the tool's own codes. Those of init are the
// main process's.
const (
	exitFailed = 1
	exitUsage  = 2
)

func subcommands() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		"init":    runInit,
		"connect": runConnect,
		"worker":  runWorker,
		"start":   runStart,
		"daemon":  runDaemon,
		"tar":     runTar,
		"untar":   runUntar,
		"install": runInstall,
		"version": runVersion,
	}
}

func main() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	goruntime.GOMAXPROCS(processors)
	if len(os.Args) < 2 {
		usage()
	}
	run, ok := subcommands()[os.Args[1]]
	if !ok {
		usage()
	}
	os.Exit(run(os.Args[2:]))
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: hostler-shim init | connect | daemon | install DIR | version")
	os.Exit(exitUsage)
}

func runVersion([]string) int {
	fmt.Println(version)
	return 0
}

// logError prints an error of init or a worker where the engine's log keeps it.
func logError(what string, err error) {
	fmt.Fprintln(os.Stderr, "hostler-shim: "+what+": "+strings.TrimSpace(err.Error()))
}

// disableDump keeps processes of the same user from reading this one's memory and
// environment, which hold what the next tenant must not see.
func disableDump() {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		logError("hide", err)
	}
}
