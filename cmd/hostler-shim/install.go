package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime/shim"
)

// runInstall copies this program into the directory that a container mounts at
// shim.Mount, and prepares the other directories that the container mounts. It
// is for an engine that cannot do so: Kubernetes creates every volume owned by
// root and accessible to everyone.
//
//	hostler-shim install DIR [MODE:OWNER:DIR]...
func runInstall(args []string) int {
	if len(args) == 0 {
		return exitUsage
	}
	err := install(args[0])
	for _, arg := range args[1:] {
		err = errors.Join(err, prepareDir(arg))
	}
	if err != nil {
		logError("install", err)
		return exitFailed
	}
	return 0
}

// install creates the content of shim.Mount: the mount point of shim.RunDir, and
// two copies of this program, which appear atomically. Everyone may read the one
// that the container's processes use.
func install(dir string) error {
	bin := filepath.Join(dir, relToMount(shim.BinDir))
	return errors.Join(
		ensureDir(bin, 0o755), ensureDir(filepath.Join(dir, relToMount(shim.RunDir)), 0o700),
		copySelf(bin, shim.AskBinaryName, shim.AskFileMode), copySelf(bin, shim.BinaryName, shim.FileMode))
}

// copySelf creates a copy of this program in a directory.
func copySelf(dir, name string, mode os.FileMode) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	part, err := os.CreateTemp(dir, "part-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = io.Copy(part, self)
	if err = errors.Join(err, part.Chmod(mode), part.Close()); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	return os.Rename(part.Name(), filepath.Join(dir, name))
}

// relToMount returns a path below shim.Mount, relative to it.
func relToMount(path string) string { return strings.TrimPrefix(path, shim.Mount+"/") }

// ensureDir creates a directory unless it exists.
func ensureDir(path string, mode os.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// prepareDir creates a directory unless it exists, and sets its mode and owner.
// The owner is set last, because only the owner may set the mode. A directory
// that is not empty was prepared before and may have been changed by its user:
// a restarted node starts its pods from the beginning.
func prepareDir(arg string) error {
	fields := strings.SplitN(arg, ":", 3)
	if len(fields) != 3 {
		return fmt.Errorf("%q is not MODE:OWNER:DIR", arg)
	}
	mode, err1 := strconv.ParseUint(fields[0], 8, 12)
	owner, err2 := strconv.ParseUint(fields[1], 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("%q is not MODE:OWNER:DIR: %w", arg, err)
	}
	bits := os.FileMode(mode & 0o777)
	if mode&0o1000 != 0 {
		bits |= os.ModeSticky
	}
	if err := os.Mkdir(fields[2], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if names, err := os.ReadDir(fields[2]); err == nil && len(names) > 0 {
		return nil
	}
	if err := os.Chmod(fields[2], bits); err != nil || int(owner) == os.Geteuid() {
		return err
	}
	return os.Chown(fields[2], int(owner), int(owner))
}
