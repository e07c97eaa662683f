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
// uses it. The server's process holds a lock on it until it exits. So a server
// that is restarted after a crash knows which server has exited, and no server
// waits until that one's lease expires.
type previousServer struct{ file *os.File }

// fileIdentity identifies the file, its machine and the machine's boot. A copy
// of the data directory has another identity, on the same machine or on a clone
// of it with the same name: the server of the original may be alive.
func fileIdentity(f *os.File, host string) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	// Only Linux has a boot id. Elsewhere host and file identify the server.
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") //nolint:errcheck // see above
	at, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no inode number", f.Name())
	}
	return fmt.Sprintf("%s %s %d:%d", host, strings.TrimSpace(string(boot)), at.Dev, at.Ino), nil
}

// findPreviousServer returns the id of the last server of this data directory.
// The id is empty if there was none, or if it is unknown whether that server has
// exited, which holds for a copied directory and for one from before the
// machine's last boot.
func findPreviousServer(data, host string) (p previousServer, id string, err error) {
	path := filepath.Join(data, "server")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return p, "", fmt.Errorf("open the file of this data directory's server: %w", err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return p, "", f.Close() // it is alive, or its state is unknown
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

// record writes this server's id to the file, for the next server.
func (p previousServer) record(id, host string) error {
	if p.file == nil {
		return nil
	}
	where, err := fileIdentity(p.file, host)
	if err != nil {
		return fmt.Errorf("record this server in its data directory: %w", err)
	}
	if err := p.file.Truncate(0); err != nil {
		return fmt.Errorf("record this server in its data directory: %w", err)
	}
	if _, err := p.file.WriteAt([]byte(id+" "+where+"\n"), 0); err != nil {
		return fmt.Errorf("record this server in its data directory: %w", err)
	}
	return nil
}
