package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// runImageHook becomes a hook of the image, unless its content has changed since
// it was listed. It runs as the workload's user.
//
//	hostler-shim image-hook SHA256 PATH
func runImageHook(args []string) int {
	if len(args) != 2 {
		return exitUsage
	}
	err := imageFiles{"/", os.Geteuid()}.exec(args[0], args[1])
	fmt.Fprintln(os.Stderr, shim.ImageHookRefused+strings.TrimSpace(err.Error()))
	return shim.ExitRefused
}

// exec replaces this process by the file. What is executed is a sealed copy of
// what was compared with the digest.
func (f imageFiles) exec(digest, file string) error {
	program, err := f.sealed(digest, file)
	if err != nil {
		return fmt.Errorf("%.120q is refused: %w", file, err)
	}
	defer program.Close()
	err = syscall.Exec("/proc/self/fd/"+strconv.Itoa(int(program.Fd())), []string{file}, os.Environ())
	return fmt.Errorf("execute %.120q: %w", file, err)
}

// sealed returns a copy in memory of a file with a digest.
func (f imageFiles) sealed(digest, file string) (*os.File, error) {
	if path.Clean(file) != file || !strings.HasPrefix(file, runtime.ImageHooksDir+"/") {
		return nil, errors.New("it is not below " + runtime.ImageHooksDir)
	}
	in, err := f.open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	program, err := newExecutable()
	if err != nil {
		return nil, err
	}
	if err := sealImageHook(program, in, digest); err != nil {
		program.Close()
		return nil, err
	}
	return program, nil
}

// sealImageHook copies a file to program. Nothing can change program anymore when
// it is compared with the digest.
func sealImageHook(program, in *os.File, digest string) error {
	err := copyImageHook(program, in)
	if err == nil {
		_, err = unix.FcntlInt(program.Fd(), unix.F_ADD_SEALS, scriptSeals)
	}
	if err != nil {
		return fmt.Errorf("copy it to memory: %w", err)
	}
	actual, err := digestOf(io.NewSectionReader(program, 0, runtime.MaxImageHookSize+1))
	if err != nil {
		return err
	}
	if actual != digest {
		return errors.New("it was changed since the container was created")
	}
	return passToInterpreter(program)
}

// newExecutable returns an empty file in memory that can be executed.
func newExecutable() (*os.File, error) {
	fd, err := unix.MemfdCreate("image-hook", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("image-hook", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("the kernel permits no executable file in memory (vm.memfd_noexec): %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("create a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "image-hook"), nil
}

// passToInterpreter keeps the descriptor of a script open, which its interpreter
// reads.
func passToInterpreter(program *os.File) error {
	start := make([]byte, 2)
	if n, err := program.ReadAt(start, 0); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(start[:n], []byte("#!")) {
		return err
	}
	_, err := unix.FcntlInt(program.Fd(), unix.F_SETFD, 0)
	return err
}

// copyImageHook copies a file, which may grow while it is read.
func copyImageHook(to io.Writer, in io.Reader) error {
	n, err := io.Copy(to, io.LimitReader(in, runtime.MaxImageHookSize+1))
	if err == nil && n > runtime.MaxImageHookSize {
		err = fmt.Errorf("it has more than %d bytes", runtime.MaxImageHookSize)
	}
	return err
}
