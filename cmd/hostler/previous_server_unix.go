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

// previousServer is a file in the data directory with the id of the server that
// uses it, which keeps it locked for as long as its process lives. So a server
// that is started again after a crash knows for certain which one has died, and
// nobody need wait until that one's lease is over.
type previousServer struct{ file *os.File }

// fileIdentity identifies the file, the machine that it is on and the machine's start.
// A copy of the data directory has another one, on the same machine or on a
// clone of it with the same name: the server whose copy it is may be alive.
func fileIdentity(f *os.File, host string) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	// Only Linux has a boot id. Without it, name and file have to do.
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") //nolint:errcheck // see above
	at, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no inode number", f.Name())
	}
	return fmt.Sprintf("%s %s %d:%d", host, strings.TrimSpace(string(boot)), at.Dev, at.Ino), nil
}

// findPreviousServer returns the id that the last server of this data directory
// had, empty if there was none, or if it is not known to be dead: a directory
// that was copied says nothing, nor does one of before the machine's start.
func findPreviousServer(data, host string) (p previousServer, id string, err error) {
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
	here, err := fileIdentity(f, host)
	if err != nil {
		return previousServer{f}, "", fmt.Errorf("identify %s: %w", path, err)
	}
	if where != here {
		id = ""
	}
	return previousServer{f}, id, nil
}

// record makes this server the one that the next one finds.
func (p previousServer) record(id, host string) error {
	if p.file == nil {
		return nil
	}
	where, err := fileIdentity(p.file, host)
	if err != nil {
		return fmt.Errorf("note who serves: %w", err)
	}
	if err := p.file.Truncate(0); err != nil {
		return fmt.Errorf("note who serves: %w", err)
	}
	if _, err := p.file.WriteAt([]byte(id+" "+where+"\n"), 0); err != nil {
		return fmt.Errorf("note who serves: %w", err)
	}
	return nil
}
