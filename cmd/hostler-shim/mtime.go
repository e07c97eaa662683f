package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// handleLastModified answers when something below the request's folders was last changed.
func (c *session) handleLastModified(in *shim.Incoming) {
	var last time.Time
	deadline := time.Now().Add(shim.ScanTimeout)
	for _, dir := range in.Request.Paths {
		at, err := lastModified(filepath.Join(c.supervisor.config.Root, dir), deadline, in.Closed())
		if err != nil {
			respond(in, shim.Response{}, err)
			return
		}
		if at.After(last) {
			last = at
		}
	}
	respond(in, shim.Response{Time: last}, nil)
}

// lastModified is the latest time at which the kernel has noted a change of
// anything in or below a folder. What cannot be read is passed over, and no
// link is followed. It is runtime.ErrScanIncomplete when the time is over, or the
// session that wants to know.
func lastModified(dir string, deadline time.Time, cancelled <-chan struct{}) (time.Time, error) {
	var last time.Time
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { // what goes on is not an error
		select {
		case <-cancelled:
			return fmt.Errorf("%w: nobody waits for it any more", runtime.ErrScanIncomplete)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: it takes longer than %s", runtime.ErrScanIncomplete, shim.ScanTimeout)
		}
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil {
			if at := time.Unix(st.Ctim.Unix()); at.After(last) {
				last = at
			}
		}
		return nil
	})
	return last, err
}
