package credential

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/internal/regular"
)

// settled is how much older than a read a file's time must be for an unchanged time
// to mean an unchanged content: clocks of file systems are coarse.
const settled = 3 * time.Second

// followed is a file whose content is read again when it changes: in place, replaced,
// or behind a link.
type followed struct {
	what  string // for errors
	path  string
	limit int
	// use has the content in use, or returns an error that has no part of a secret.
	use func(content []byte) error

	info    os.FileInfo // when it was read last; nil if that failed
	readAt  time.Time
	content []byte // that was used last, valid or not
	err     error  // of that
}

// read reads the file if it may have changed, and uses its content if that has
// changed. Its error is that of the content, also if it has not.
func (f *followed) read() (changed bool, err error) {
	info, err := os.Stat(f.path)
	if err != nil {
		f.info = nil
		return false, fmt.Errorf("read the %s: %w", f.what, err)
	}
	if f.isUnchanged(info) {
		return false, f.err
	}
	now := time.Now()
	content, err := regular.Read(os.OpenFile, f.path, f.limit)
	if err != nil {
		f.info = nil
		return false, fmt.Errorf("read the %s: %w", f.what, err)
	}
	isFirst := f.readAt.IsZero()
	f.info, f.readAt = info, now
	if !isFirst && bytes.Equal(content, f.content) {
		return false, f.err
	}
	f.content, f.err = content, f.use(content)
	if f.err != nil {
		f.err = fmt.Errorf("read the %s of %s: %w", f.what, f.path, f.err)
	}
	return true, f.err
}

// isUnchanged reports whether the file is surely the one that was read.
func (f *followed) isUnchanged(info os.FileInfo) bool {
	return f.info != nil && os.SameFile(info, f.info) && info.Size() == f.info.Size() &&
		info.ModTime().Equal(f.info.ModTime()) && f.readAt.Sub(info.ModTime()) > settled
}

// follow reads a file again. What it had last stays in use if it is gone or invalid.
func (s *Service) follow(f *followed) {
	changed, err := f.read()
	s.report(f.what+" file", err)
	if changed && err == nil {
		s.log.Info("credentials were read again", "file", f.path)
	}
}
