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

// look answers when something below the request's folders was last changed.
func (c *session) look(in *shim.Incoming) {
	var last time.Time
	ends := time.Now().Add(shim.LookTime)
	for _, dir := range in.Request.Paths {
		at, err := lastChange(filepath.Join(c.init.config.Root, dir), ends, in.Lost())
		if err != nil {
			answer(in, shim.Answer{}, err)
			return
		}
		if at.After(last) {
			last = at
		}
	}
	answer(in, shim.Answer{Time: last}, nil)
}

// lastChange is the latest time at which the kernel has noted a change of
// anything in or below a folder. What cannot be read is passed over, and no
// link is followed. It is runtime.ErrUnfinished when the time is over, or the
// session that wants to know.
func lastChange(dir string, ends time.Time, over <-chan struct{}) (time.Time, error) {
	var last time.Time
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { // what goes on is not an error
		select {
		case <-over:
			return fmt.Errorf("%w: nobody waits for it any more", runtime.ErrUnfinished)
		default:
		}
		if time.Now().After(ends) {
			return fmt.Errorf("%w: it takes longer than %s", runtime.ErrUnfinished, shim.LookTime)
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
