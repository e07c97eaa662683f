package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
)

// fence is the greatest number that a change of this container has carried.
// Whoever changes it holds the supervisor's changing token.
type fence struct {
	path    string // empty for one that lasts as long as init
	current int64
}

// openFence reads what an earlier init has left. A file that cannot be read is
// an error: without the number an older server could not be refused.
func openFence(path string) (fence, error) {
	f := fence{path: path}
	if path == "" {
		return f, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		f.current, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	if err != nil {
		return f, fmt.Errorf("read the fence: %w", err)
	}
	return f, nil
}

// admit refuses a number that is smaller than one before. A greater one is on
// the disk before it counts.
func (f *fence) admit(number int64) error {
	switch {
	case number < f.current:
		return fmt.Errorf("%w: its fence is %d, and not %d", runtime.ErrStaleFence, f.current, number)
	case number == f.current:
		return nil
	}
	if f.path != "" {
		if err := writeDurably(f.path, strconv.AppendInt(nil, number, 10)); err != nil {
			return fmt.Errorf("record the fence: %w", err)
		}
	}
	f.current = number
	return nil
}

// writeDurably replaces a file as a whole or not at all.
func writeDurably(path string, content []byte) error {
	next, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
