package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

func write(args []string) error {
	if err := os.MkdirAll(filepath.Dir(args[0]), 0o755); err != nil {
		return err
	}
	return os.WriteFile(args[0], []byte(args[1]), 0o644)
}

func appendTo(args []string) error {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(args[1]); err != nil {
		return err
	}
	return f.Close()
}

func read(args []string) error {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(b)
	return err
}

// await polls, because the kernel does not notify in every filesystem.
func await(args []string) error {
	for {
		b, err := os.ReadFile(args[0])
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if len(b) > 0 {
			_, err = os.Stdout.Write(b)
			return err
		}
		<-time.After(5 * time.Millisecond)
	}
}

func remove(args []string) error {
	if _, err := os.Lstat(args[0]); err != nil {
		return err
	}
	return os.RemoveAll(args[0])
}

func mode(octal string) (fs.FileMode, error) {
	m, err := strconv.ParseUint(octal, 8, 12)
	return fs.FileMode(m & 0o777), err
}

func chmod(args []string) error {
	m, err := mode(args[1])
	if err != nil {
		return err
	}
	return os.Chmod(args[0], m)
}

func mkdir(args []string) error {
	if err := os.Mkdir(args[0], 0o700); err != nil {
		return err
	}
	return chmod(args)
}

func link(args []string) error { return os.Symlink(args[0], args[1]) }

func stat(args []string) error {
	info, err := os.Lstat(args[0])
	if err != nil {
		return err
	}
	types := map[fs.FileMode]string{0: "file", fs.ModeDir: "dir", fs.ModeSymlink: "link"}
	name, ok := types[info.Mode().Type()]
	if !ok {
		name = "other"
	}
	owner := info.Sys().(*syscall.Stat_t)
	_, err = fmt.Printf("%s %o %d %d %d\n", name, info.Mode().Perm(), owner.Uid, owner.Gid, info.Size())
	return err
}
