package main

import (
	"io/fs"
	"path/filepath"
	"time"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// look answers when something below the request's folders was last changed.
func (c *session) look(r shim.Request) {
	answer := shim.Answer{ID: r.ID}
	for _, dir := range r.Paths {
		if at := lastChange(filepath.Join(c.init.config.Root, dir)); at.After(answer.Time) {
			answer.Time = at
		}
	}
	_ = c.send(shim.KindAnswer, answer) // the client asks again
}

// lastChange is the latest time at which the kernel has noted a change of
// anything in or below a folder. What cannot be read is passed over, and no
// link is followed.
func lastChange(dir string) time.Time {
	var last time.Time
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { // what goes on is not an error
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil {
			if at := time.Unix(st.Ctim.Unix()); at.After(last) {
				last = at
			}
		}
		return nil
	})
	return last
}
