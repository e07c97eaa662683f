package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// epoch is the earliest time that a file is set to, and span the range of them.
const (
	epoch = 1_000_000_000 // 2001
	span  = 600_000_000
)

// timesCommand sets the modification times of all files that are as they were
// committed to times which follow from their content. The go command takes the
// result of a test that reads a file of the tree from its cache only if the
// file's time is the same: in a new clone all are new.
func timesCommand([]string) error {
	out, err := exec.Command("git", "ls-files", "-s", "-z").Output()
	if err != nil {
		return err
	}
	changed, err := exec.Command("git", "diff", "--name-only", "-z").Output()
	if err != nil {
		return err
	}
	skip := map[string]bool{}
	for name := range bytes.SplitSeq(changed, []byte{0}) {
		skip[string(name)] = true
	}
	dirs := map[string]time.Time{}
	for line := range bytes.SplitSeq(out, []byte{0}) {
		entry, name, found := bytes.Cut(line, []byte("\t"))
		fields := bytes.Fields(entry)
		if !found || len(fields) < 2 || skip[string(name)] {
			continue
		}
		at, err := contentTime(string(fields[1]))
		if err != nil {
			return err
		}
		if err := os.Chtimes(string(name), at, at); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		dirs[filepath.Dir(string(name))] = time.Unix(epoch, 0)
	}
	for name, at := range dirs { // a listing is in the key by its names
		if err := os.Chtimes(name, at, at); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// contentTime returns the time of a file with an object id of Git.
func contentTime(id string) (time.Time, error) {
	n, err := strconv.ParseUint(id[:min(15, len(id))], 16, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(epoch+int64(n%span), int64(n%1e9)), nil
}
