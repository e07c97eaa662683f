package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keepTimes changes a file and then sets its times back.
func keepTimes(path string, do func(content []byte) error) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := do(append(content[1:], content[0]+1)); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, 0)
}

func rewrite(args []string) error {
	return keepTimes(args[0], func(content []byte) error { return os.WriteFile(args[0], content, 0) })
}

func replace(args []string) error {
	return keepTimes(args[0], func(content []byte) error {
		return errors.Join(os.WriteFile(args[0]+".new", content, 0o644), os.Rename(args[0]+".new", args[0]))
	})
}

func attribute(args []string) error {
	return unix.Setxattr(args[0], "user.box", []byte("box"), 0)
}

// accessList gives user 1001 the permission to read.
func accessList(args []string) error {
	const list = "\x02\x00\x00\x00\x01\x00\x07\x00\xff\xff\xff\xff\x02\x00\x04\x00\xe9\x03\x00\x00" +
		"\x04\x00\x05\x00\xff\xff\xff\xff\x10\x00\x05\x00\xff\xff\xff\xff\x20\x00\x05\x00\xff\xff\xff\xff"
	return unix.Setxattr(args[0], "system.posix_acl_access", []byte(list), 0)
}

func attributes(args []string) error {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(args[0], buf)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	for name := range bytes.SplitSeq(bytes.TrimRight(buf[:max(n, 0)], "\x00"), []byte{0}) {
		if bytes.HasPrefix(name, []byte("user.")) || bytes.HasPrefix(name, []byte("system.posix")) {
			fmt.Println(string(name))
		}
	}
	return nil
}

// writeMapped maps a file as soon as it exists and writes to it indefinitely,
// through a mapping that it reads from first.
func writeMapped(args []string) error {
	for {
		if info, err := os.Stat(args[0]); err == nil && info.Size() > 0 {
			break
		}
		<-time.After(time.Millisecond)
	}
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	for {
		mapped[0] = mapped[0]%26 + 'a'
		<-time.After(time.Millisecond)
	}
}

// nestDirs creates nested directories, deeper than a path can name.
func nestDirs(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	for range n {
		if err := errors.Join(syscall.Mkdir("directory", 0o700), syscall.Chdir("directory")); err != nil {
			return err
		}
	}
	return nil
}

func makeFiles(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	err = os.MkdirAll(args[0], 0o755)
	for i := range n {
		if err != nil {
			return err
		}
		err = os.WriteFile(filepath.Join(args[0], strconv.Itoa(i)), nil, 0o600)
	}
	return err
}

func limit(args []string) error {
	initPID, err := resolvePID("init")
	if err != nil {
		return err
	}
	kind, err1 := strconv.Atoi(args[0])
	n, err2 := strconv.ParseUint(args[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return unix.Prlimit(initPID, kind, &unix.Rlimit{Cur: n, Max: n}, nil)
}

func segment([]string) error {
	const create = 0o1000
	for _, call := range [][4]uintptr{
		{unix.SYS_SHMGET, 0, 4096, create | 0o600},
		{unix.SYS_MSGGET, 0, create | 0o600, 0},
		{unix.SYS_SEMGET, 0, 1, create | 0o600},
	} {
		if _, _, errno := unix.Syscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	return nil
}

func queue(args []string) error {
	name, err := unix.BytePtrFromString(args[0])
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func changeStdoutPipe([]string) error {
	const stdout = 1
	flags, err1 := unix.FcntlInt(stdout, unix.F_GETFL, 0)
	size, err2 := unix.FcntlInt(stdout, unix.F_GETPIPE_SZ, 0)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	fmt.Printf("flags %#x size %d\n", flags, size)
	_, err := unix.FcntlInt(stdout, unix.F_SETPIPE_SZ, 4096)
	if err := errors.Join(err, unix.SetNonblock(stdout, true)); err != nil {
		return err
	}
	return hang(nil)
}
