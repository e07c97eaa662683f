package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// How much of a root filesystem is looked at, at 37 bytes of memory a file. A
// larger one is not proven clean: to look at it would take longer than to make
// another container. It could be read-only, which needs no proof.
const (
	censusFiles = 200_000
	censusTime  = 10 * time.Second
)

// census is what a root filesystem consisted of: the hash of each path with
// what lookAt says of it. Hashes, because the paths of a large image with their
// states would be most of what a small container may have.
type census struct {
	seen map[[16]byte]struct{}
	why  error // instead: why it cannot be told
}

// errCensus ends a census that becomes too large.
var errCensus = fmt.Errorf("%w: its root filesystem is too large to be compared; make it read-only", runtime.ErrNotClean)

// takeCensus walks the root filesystem when nobody else tells what changes on
// it. What is mounted on it is a place, or ours, or the kernel's.
func (s *supervisor) takeCensus(visit func(path string, isDir bool, hash [16]byte)) error {
	if !s.config.NoDiff {
		return nil
	}
	skip, err := rootMounts()
	if err != nil || skip == nil {
		return err
	}
	limit, count := time.Now().Add(censusTime), 0
	err = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		if closed(path, err) {
			return nil
		}
		if err != nil {
			return err
		}
		if skip[path] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // a single file, which is looked at by itself
		}
		if count++; count > censusFiles || time.Now().After(limit) {
			return errCensus
		}
		state, err := lookAt(path)
		if err != nil {
			return err
		}
		visit(path, d.IsDir(), fingerprint(path, state))
		return nil
	})
	if err != nil {
		return fmt.Errorf("walk the root filesystem: %w", err)
	}
	return nil
}

// closed says whether a folder could not be read because this process may not
// enter it. Where that is not root, every tenant is the same user, and could not
// reach what is in there either; to open the folder would change its state.
func closed(path string, err error) bool {
	return errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 && errors.Is(unix.Access(path, unix.X_OK), unix.EACCES)
}

// rootMounts is what is mounted below a root that can be written; nil when it
// cannot, and there is nothing to be looked at.
func rootMounts() (map[string]bool, error) {
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	skip, writable := make(map[string]bool), false
	for _, m := range all {
		if m.path == "/" {
			writable = m.writable
			continue
		}
		skip[m.path] = true
	}
	if !writable {
		return nil, nil
	}
	return skip, nil
}

// fingerprint stands for a path and its state.
func fingerprint(path string, f fileState) [16]byte {
	buf := make([]byte, 0, 256)
	for _, n := range []uint64{
		uint64(f.mode), uint64(f.uid), uint64(f.gid), uint64(f.size), f.inode, f.device,
		uint64(f.changed.Sec), uint64(f.changed.Nsec), uint64(f.modified.Sec), uint64(f.modified.Nsec), uint64(len(path)),
	} {
		buf = binary.LittleEndian.AppendUint64(buf, n)
	}
	if f.missing {
		buf = append(buf, 1)
	}
	sum := sha256.Sum256(append(append(buf, path...), f.target...))
	return [16]byte(sum[:16])
}

// remember takes the census that later ones are compared with. One that cannot
// be taken makes no container unfit for its first tenant, only for a second.
func (s *supervisor) remember() census {
	c := census{seen: make(map[[16]byte]struct{})}
	c.why = s.takeCensus(func(_ string, _ bool, hash [16]byte) { c.seen[hash] = struct{}{} })
	if c.why != nil {
		c.seen = nil
	}
	return c
}

// compare says what is not as it was, by name where there is still one. A
// folder changes with what is made in it, so that is told rather than the
// folder.
func (s *supervisor) compare(c census) error {
	if c.why != nil {
		return c.why
	}
	count, file, folder := 0, "", ""
	err := s.takeCensus(func(path string, isDir bool, hash [16]byte) {
		count++
		if _, same := c.seen[hash]; same {
			return
		}
		if isDir && folder == "" {
			folder = path
		} else if !isDir && file == "" {
			file = path
		}
	})
	switch {
	case err != nil:
		return err
	case file != "":
		return fmt.Errorf("%w: %s is new or has changed", runtime.ErrNotClean, file)
	case folder != "":
		return fmt.Errorf("%w: %s has changed", runtime.ErrNotClean, folder)
	case count != len(c.seen):
		return errors.Join(runtime.ErrNotClean, errors.New("something of its root filesystem is missing"))
	}
	return nil
}
