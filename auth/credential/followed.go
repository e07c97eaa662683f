package credential

import (
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/internal/regular"
)

const (
	// filePollInterval is the time between two looks at a file, and settleTime for how
	// long a new content must stay the same before it is used: one that is written in
	// parts, such as a line without its role yet, may permit more than the whole. Both
	// together are less than the two seconds that a revocation may take.
	filePollInterval = 500 * time.Millisecond
	settleTime       = time.Second
)

// followed is a file whose content is read again when it changes: in place, replaced,
// or behind a link. It is read at each look: times of modification are the same for
// two changes within a tick of the clock, and programs that copy files set them.
type followed struct {
	what  string // for errors
	path  string
	limit int
	// use has the content in use, or returns an error that has no part of a secret.
	use func(content []byte) error

	used  fingerprint // of the content that was used last, valid or not
	err   error       // of that
	next  fingerprint // of a content that has not settled
	since time.Time   // when next was read first
}

// fingerprint is the hash of a content: the zero value of none. Secrets are not kept.
type fingerprint [sha256.Size]byte

// read reads the file, and uses its content if that has changed and has settled. Its
// error is that of the content, also if it has not changed.
func (f *followed) read() (changed bool, err error) {
	content, err := regular.Read(os.OpenFile, f.path, f.limit)
	if err != nil {
		f.next = fingerprint{}
		return false, fmt.Errorf("read the %s: %w", f.what, err)
	}
	isFirst, found := f.used == fingerprint{}, fingerprint(sha256.Sum256(content))
	if !isFirst && !f.isSettled(found, time.Now()) {
		return false, f.err
	}
	f.used, f.next = found, fingerprint{}
	if f.err = f.use(content); f.err != nil {
		f.err = fmt.Errorf("read the %s of %s: %w", f.what, f.path, f.err)
	}
	return true, f.err
}

// isSettled reports whether a content is another one than that in use, and has not
// changed for some time.
func (f *followed) isSettled(found fingerprint, now time.Time) bool {
	switch found {
	case f.used:
		f.next = fingerprint{}
		return false
	case f.next:
		return now.Sub(f.since) >= settleTime
	}
	f.next, f.since = found, now
	return false
}

// follow reads a file again. What it had last stays in use if it is gone or invalid.
func (s *Service) follow(f *followed) {
	changed, err := f.read()
	s.report(f.what+" file", err)
	if changed && err == nil {
		s.log.Info("credentials were read again", "file", f.path)
	}
}
