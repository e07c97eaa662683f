// Package regular reads regular files whose names the caller does not choose:
// those of a directory, and those that the author of a workload names.
//
// It promises that a read ends: the open of a pipe waits for a writer, and a
// device may have no end. It leaves to the caller where the files may be: the
// caller passes os.OpenFile or the method of an os.Root.
package regular

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Opener is os.OpenFile, or OpenFile of an os.Root.
type Opener func(name string, flag int, perm os.FileMode) (*os.File, error)

// Open opens a regular file for reading. Anything else is an error.
func Open(open Opener, name string) (*os.File, error) {
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: it is a directory, a device or a pipe", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read reads a regular file of at most limit bytes. A larger one is an error.
func Read(open Opener, name string, limit int) ([]byte, error) {
	f, err := Open(open, name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return data, err
}
