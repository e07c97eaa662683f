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

// handleLastModified answers when something below the request's directories
// last changed.
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

// lastModified returns the latest change time of anything in or below a
// directory. It skips what it cannot read and follows no link. It returns
// runtime.ErrScanIncomplete if the deadline passes or the requesting session
// ends.
func lastModified(dir string, deadline time.Time, cancelled <-chan struct{}) (time.Time, error) {
	var last time.Time
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { // changes during the scan are not errors
		select {
		case <-cancelled:
			return fmt.Errorf("%w: the session has ended", runtime.ErrScanIncomplete)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: the scan takes longer than %s", runtime.ErrScanIncomplete, shim.ScanTimeout)
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
