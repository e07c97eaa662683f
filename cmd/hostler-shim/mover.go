package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// moverFlags are what a process that packs or unpacks files is told by init.
type moverFlags struct {
	dir  string
	root string
	user string
}

// moveFiles is a process that init starts to pack a directory to its stdout, or to
// unpack its stdin into one. It answers on the socket to init, and moves nothing
// for anybody else.
//
//	hostler-shim tar|untar [--root DIR] [--user USER] -- DIR
func moveFiles(name string, args []string, move func(moverFlags) error) int {
	var st unix.Stat_t
	if unix.Fstat(workerSocket, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		complain(name, errors.New("it is for init to start"))
		return exitUsage
	}
	unix.CloseOnExec(workerSocket)
	f, err := parseMover(name, args)
	if err == nil {
		err = f.takeOwnUser()
	}
	if err == nil {
		err = move(f)
	}
	answer := shim.Answer{}
	if err != nil {
		answer.Fault = shim.NewFault(err)
	}
	if err := shim.WriteFrame(os.NewFile(workerSocket, "init"), shim.KindAnswer, answer); err != nil {
		return exitFailed // init is gone, or has given it up
	}
	return 0
}

func parseMover(name string, args []string) (moverFlags, error) {
	var f moverFlags
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

// takeOwnUser is for a container. One that is a directory belongs to the user
// of the server.
func (f moverFlags) takeOwnUser() error {
	if f.root != "/" {
		return nil
	}
	return takeOwnUser(noHeirs)
}
