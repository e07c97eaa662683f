package workload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds of a followed directory: the server has all of it in memory, and reads
// all of it after each change.
const (
	MaxFollowedFiles = 1000
	maxFollowedBytes = 64 << 20 // of all its files
)

// errTooManyFiles is the error of a file that is not followed because of the others.
var errTooManyFiles = fmt.Errorf("is not followed: the directory has more than %d workload files", MaxFollowedFiles)

// errTooLargeTogether is the error of a file that is not read because of the others.
var errTooLargeTogether = fmt.Errorf("is not read: the workload files of the directory have more than %d bytes together", maxFollowedBytes)

// listedNames is how many names are read from a directory at a time.
const listedNames = 1024

// followedFiles returns the files of a directory that are followed, by name: those that
// are followed already, and then the first others. Files that are added later take
// the place of none.
func (f *Directory) followedFiles(dir string) (files []string, err error) {
	in, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory of workload files: %w", err)
	}
	defer in.Close() // it was only read
	var known, others []string
	f.omitted, f.firstOmitted = 0, ""
	for {
		names, err := in.Readdirnames(listedNames)
		for _, name := range names {
			if file := filepath.Join(dir, name); f.entries[file] != nil {
				known = append(known, file)
			} else if isFileName(name) {
				others = append(others, file)
			}
		}
		others = f.omit(others, MaxFollowedFiles)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the directory of workload files: %w", err)
		}
	}
	files = append(known, f.omit(others, max(0, MaxFollowedFiles-f.places(known)))...)
	slices.Sort(files)
	return files, nil
}

// places returns how many files the known ones of a directory are, with those whose
// absence does not count yet.
func (f *Directory) places(listed []string) int {
	n := len(listed)
	for file, e := range f.entries {
		if !slices.Contains(listed, file) && !e.missing && e.active != nil {
			n++
		}
	}
	return n
}

// omit sorts files and counts those after the first most of them.
func (f *Directory) omit(files []string, most int) []string {
	slices.Sort(files)
	if len(files) <= most {
		return files
	}
	f.omitted += len(files) - most
	if first := files[most]; f.firstOmitted == "" || first < f.firstOmitted {
		f.firstOmitted = first
	}
	return files[:most]
}

// isFileName reports whether a name is one of a workload file. Names that begin with a
// dot are not: editors and mounted configuration use them.
func isFileName(name string) bool {
	ext := filepath.Ext(name)
	return (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(name, ".")
}

// hasRoom reports whether the directory's memory has room for the source of a file.
func (f *Directory) hasRoom(file string, source []byte) bool {
	total := len(source)
	for other, e := range f.entries {
		if other == file {
			continue
		}
		if total += len(e.source); e.active != nil && e.active != e.parsed {
			total += len(e.active.Source)
		}
	}
	return total <= maxFollowedBytes
}
