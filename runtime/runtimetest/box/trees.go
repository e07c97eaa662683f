package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// exchange exchanges two names, by renames that every filesystem has.
func exchange(args []string) error {
	a, b, aside := args[0], args[1], args[0]+".aside"
	return errors.Join(os.Rename(a, aside), os.Rename(b, a), os.Rename(aside, b))
}

// flip exchanges a directory and a link, indefinitely. Whatever another process
// creates or removes there, it soon begins again.
func flip(args []string) error {
	dir, target, aside := args[0], args[1], args[0]+".aside"
	for {
		_ = errors.Join(os.RemoveAll(aside), os.Remove(dir), os.MkdirAll(dir+"/sub", 0o755), os.Symlink(target, aside))
		for range 100 {
			if unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, aside, unix.RENAME_EXCHANGE) != nil {
				_ = exchange([]string{dir, aside}) // gVisor has no other way
			}
		}
	}
}

func truncate(args []string) error {
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	return os.Truncate(args[0], size)
}

func sparse(args []string) error {
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	_, err1 := f.WriteAt([]byte(args[2]), 0)
	_, err2 := f.WriteAt([]byte(args[2]), size-int64(len(args[2])))
	return errors.Join(err1, err2, f.Close())
}

func ends(args []string) error {
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	text := make([]byte, 2*size)
	_, err1 := f.ReadAt(text[:size], 0)
	_, err2 := f.ReadAt(text[size:], info.Size()-size)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}

func walk(args []string) error {
	return filepath.WalkDir(args[0], func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == args[0] {
			return err
		}
		kinds := map[fs.FileMode]string{0: "file", fs.ModeDir: "dir", fs.ModeSymlink: "link"}
		kind, ok := kinds[d.Type()]
		if !ok {
			kind = "other"
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		target := ""
		if kind == "link" {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		const block = 512
		fmt.Printf("%+q %s %o %d %d %d %d %+q %d\n", path[len(args[0])+1:], kind, st.Mode&0o7777, st.Uid, st.Gid,
			st.Size, st.Mtim.Nano(), target, st.Blocks*block)
		return nil
	})
}
