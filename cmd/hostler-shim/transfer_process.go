package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// transferFlags are the arguments of a process that transfers files.
type transferFlags struct {
	dir  string
	root string
	user string
	live bool // for scan: see tree.ScanOptions
}

// runTransfer runs a process that init starts to send a directory to its
// stdout, or to write its stdin into one. It responds on the socket to init
// and transfers nothing for any other caller.
//
//	hostler-shim tar|untar|scan|write [--root DIR] [--user USER] [--live] -- DIR
func runTransfer(name string, args []string, transfer func(transferFlags) error) int {
	var st unix.Stat_t
	if unix.Fstat(workerSocket, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		logError(name, errors.New("only init can start it"))
		return exitUsage
	}
	unix.CloseOnExec(workerSocket)
	f, err := parseTransferFlags(name, args)
	if err == nil {
		err = f.switchToShimUser()
	}
	if err == nil {
		err = transfer(f)
	}
	response := shim.Response{}
	if err != nil {
		response.Error = shim.NewWireError(err)
	}
	if err := shim.WriteFrame(os.NewFile(workerSocket, "init"), shim.KindResponse, response); err != nil {
		return exitFailed // init has exited, or has given up on it
	}
	return 0
}

func parseTransferFlags(name string, args []string) (transferFlags, error) {
	var f transferFlags
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.StringVar(&f.root, "root", "/", "directory that confines all paths")
	set.StringVar(&f.user, "user", "", "owner of created files: uid, uid:gid, name or name:group")
	set.BoolVar(&f.live, "live", false, "files may change through memory")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() != 1 {
		return f, fmt.Errorf("got %d directories, want 1", set.NArg())
	}
	f.dir = set.Arg(0)
	return f, nil
}

// switchToShimUser switches the user in a container. A container that is a
// directory belongs to the server's user.
func (f transferFlags) switchToShimUser() error {
	if f.root != "/" {
		return nil
	}
	return switchToShimUser(inheritNoCaps)
}
