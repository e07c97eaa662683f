package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
)

// overflowUID is the owner of a file, as it is shown, that has no user in the namespace
// of this process.
const overflowUID = 65534

// isOwn reports whether a directory is this user's, and no one else may write to it.
func isOwn(d fs.FileInfo) bool {
	of, ok := d.Sys().(*syscall.Stat_t)
	return ok && int(of.Uid) == os.Geteuid() && d.Mode().Perm()&0o022 == 0
}

// safeTrialParent returns the path of the directory of trials without links, which
// another user could switch. It returns an error if another user can replace what is
// in it: a trial's directory has the key of its server, and names the programs that a
// cleanup runs.
func safeTrialParent(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the directory of trials: %w", err)
	}
	hasOverflow := hasUnmappedUsers()
	for above := dir; ; above = filepath.Dir(above) {
		d, err := os.Lstat(above)
		if err != nil {
			return "", fmt.Errorf("check the directory of trials: %w", err)
		}
		of, ok := d.Sys().(*syscall.Stat_t)
		isTrusted := ok && (of.Uid == 0 || int(of.Uid) == os.Geteuid() || hasOverflow && of.Uid == overflowUID)
		if !isTrusted || d.Mode()&fs.ModeSticky == 0 && isWrittenByOthers(d.Mode(), of.Gid) {
			return "", fmt.Errorf("other users can write to %s; name another directory with --data", above)
		}
		if above == filepath.Dir(above) {
			return dir, nil
		}
	}
}

// isWrittenByOthers reports whether others than the owner of a directory and root may
// write to it. Many systems give each user a group of its own, which may.
func isWrittenByOthers(mode fs.FileMode, gid uint32) bool {
	if mode.Perm()&0o002 != 0 {
		return true
	}
	return mode.Perm()&0o020 != 0 && gid != 0 && !isOwnGroup(gid)
}

// isOwnGroup reports whether a group has the name of this user.
func isOwnGroup(gid uint32) bool {
	group, err := user.LookupGroupId(fmt.Sprint(gid))
	if err != nil {
		return false
	}
	current, err := user.Current()
	return err == nil && group.Name == current.Username
}

// hasUnmappedUsers reports whether this process is in a user namespace, where files of
// users of the host seem to be those of overflowUID. Elsewhere that is a user.
func hasUnmappedUsers() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !coversOverflow(string(text))
}

// coversOverflow reports whether a table of users has overflowUID.
func coversOverflow(table string) bool {
	for line := range strings.Lines(table) {
		var first, outside, count int64
		if _, err := fmt.Sscan(line, &first, &outside, &count); err == nil && first <= overflowUID && overflowUID < first+count {
			return true
		}
	}
	return false
}
