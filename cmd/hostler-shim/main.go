// Command hostler-shim is Hostler's own program inside every container: a
// static binary that needs neither a shell nor libraries there.
//
//	hostler-shim init      the first process; see shim.Config for its configuration
//	hostler-shim connect   a session: stdin and stdout to init's socket
//	hostler-shim daemon    start init detached from the caller
//	hostler-shim install DIR   copy this program to where a container mounts it
//	hostler-shim worker    started by init: runs one command at a time
//	hostler-shim start     started by init: becomes the main process
//	hostler-shim tar DIR   started by init: packs DIR to stdout
//	hostler-shim untar DIR started by init: unpacks stdin into DIR
//	hostler-shim scan DIR  started by init: lists DIR, and sends files of it
//	hostler-shim write DIR started by init: writes what it receives into DIR
//	hostler COMMAND        for the container's processes: sends a request to the
//	                       server; a copy of this program that everyone may read
//	hostler _file OP REQUEST   for the server: works on files as the container's
//	                       user
//
// It guarantees that a command has ended when it reports so. A worker is a
// subreaper: every process that a command starts, however it tries to hide,
// becomes the worker's child when its parent exits. So "no child left" proves
// that no process of the command is left. Commands and the main process run as
// the container's user, with no capability and no way to gain one. Init and the
// workers keep their capabilities, so that they can always kill what they have
// started.
//
// In a container, if it is permitted to, each of these programs first switches
// to a user of its own, shim.UID. No tenant has that user, so no tenant can
// reach the program, not even with processes of root.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	goruntime "runtime"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// version is set by the linker.
var version = "dev"

// The process must stay small, because every container has three. The private
// memory of each one, measured idle on amd64: init 1.5 MB, its worker 1.4 MB,
// the bridge of a session 0.8 MB. All share the program's text.
const (
	gcPercent   = 50
	memoryLimit = 32 << 20
	// initMemoryLimit is that of init: it keeps the output of commands.
	initMemoryLimit = 192 << 20

	processors = 2 // a blocking system call may occupy one for a while
)

// exitUsage and exitFailed are the exit codes of the tool. Init exits with the
// main process's exit code.
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
		"scan":    runScan,
		"write":   runWrite,
		"install": runInstall,
		"version": runVersion,

		shim.ListImageHooks: runListImageHooks,
		shim.RunImageHook:   runImageHook,
	}
}

func main() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	goruntime.GOMAXPROCS(processors)
	if filepath.Base(os.Args[0]) == shim.AskBinaryName {
		if len(os.Args) > 1 && os.Args[1] == shim.FileCommand {
			os.Exit(runFile(os.Args[2:], os.Stdin, os.Stdout))
		}
		os.Exit(runAsk(os.Args[1:], os.Stdout, os.Stderr))
	}
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

// logError prints an error of init or of a worker to stderr, which the engine's
// log keeps.
func logError(what string, err error) {
	fmt.Fprintln(os.Stderr, "hostler-shim: "+what+": "+strings.TrimSpace(err.Error()))
}

// disableDump prevents processes of the same user from reading this process's
// memory and environment, which hold data that the next tenant must not see.
func disableDump() {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		logError("disable dumping", err)
	}
}
