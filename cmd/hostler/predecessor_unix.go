//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// predecessor is a file in the data directory with the id of the server that
// uses it, which keeps it locked for as long as its process lives. So a server
// that is started again after a crash knows for certain which one has died, and
// nobody need wait until that one's lease is over.
type predecessor struct{ file *os.File }

// findPredecessor returns the id that the last server of this data directory
// had, empty if there was none, or if it is not known to be dead: a directory
// that was copied from another machine says nothing.
func findPredecessor(data, host string) (p predecessor, id string, err error) {
	path := filepath.Join(data, "server")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return p, "", fmt.Errorf("open the file of this data directory's server: %w", err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return p, "", f.Close() // it lives, or nobody can tell
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return p, "", fmt.Errorf("read %s: %w", path, err)
	}
	id, where, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if where != host {
		id = ""
	}
	return predecessor{f}, id, nil
}

// become makes this server the one that the next one finds.
func (p predecessor) become(id, host string) error {
	if p.file == nil {
		return nil
	}
	if err := p.file.Truncate(0); err != nil {
		return fmt.Errorf("note who serves: %w", err)
	}
	if _, err := p.file.WriteAt([]byte(id+" "+host+"\n"), 0); err != nil {
		return fmt.Errorf("note who serves: %w", err)
	}
	return nil
}
