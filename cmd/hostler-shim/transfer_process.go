package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// transferFlags are what a process that packs or unpacks files is told by init.
type transferFlags struct {
	dir  string
	root string
	user string
}

// runTransfer is a process that init starts to pack a directory to its stdout, or to
// unpack its stdin into one. It answers on the socket to init, and moves nothing
// for anybody else.
//
//	hostler-shim tar|untar [--root DIR] [--user USER] -- DIR
func runTransfer(name string, args []string, transfer func(transferFlags) error) int {
	var st unix.Stat_t
	if unix.Fstat(workerSocket, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		logError(name, errors.New("it is for init to start"))
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
		return exitFailed // init is gone, or has given it up
	}
	return 0
}

func parseTransferFlags(name string, args []string) (transferFlags, error) {
	var f transferFlags
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.StringVar(&f.root, "root", "/", "the directory that nothing may reach out of")
	set.StringVar(&f.user, "user", "", "who owns what is made: uid, uid:gid, name or name:group")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() != 1 {
		return f, fmt.Errorf("one directory is needed, and not %d", set.NArg())
	}
	f.dir = set.Arg(0)
	return f, nil
}

// switchToShimUser is for a container. One that is a directory belongs to the user
// of the server.
func (f transferFlags) switchToShimUser() error {
	if f.root != "/" {
		return nil
	}
	return switchToShimUser(inheritNoCaps)
}
