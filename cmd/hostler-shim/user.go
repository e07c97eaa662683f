package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// identity is the user and the groups of a process.
type identity struct {
	uid, gid int
	groups   []int // in addition to gid
	home     string
}

// accounts are the files in which names are looked up. There is no libc here,
// and so no other source of names.
type accounts struct {
	passwd, group string
}

var containerAccounts = accounts{passwd: "/etc/passwd", group: "/etc/group"}

// lookup parses uid, uid:gid, name or name:group as an engine does: an unknown
// number is used as it is, and an unknown name is an error. The additional
// groups are those of the account unless the spec names a group. An empty spec
// means the user of this process.
func (a accounts) lookup(spec string) (identity, error) {
	id, err := a.resolve(spec)
	if err == nil && isReserved(id) {
		err = errReservedUser
	}
	return id, err
}

// errReservedUser refuses the shim's own user, whatever name the files of an
// image or of a tenant give it.
var errReservedUser = &runtime.StartError{
	Reason: runtime.StartUserNotFound,
	Detail: fmt.Sprintf("user and group %d are reserved for hostler: choose another user in the workload", shim.UID),
}

func isReserved(id identity) bool {
	return isShimID(id.uid) || isShimID(id.gid) || slices.ContainsFunc(id.groups, isShimID)
}

// isShimID reports whether a process of ours with this ID would have our own
// user or group. The kernel uses only the lower 32 bits, and -1 means the
// current ID.
func isShimID(number int) bool {
	return uint32(number) == shim.UID || uint32(number) == math.MaxUint32 //nolint:gosec // as the kernel does
}

func (a accounts) resolve(spec string) (identity, error) {
	if spec == "" {
		uid, gid := defaultIDs()
		spec = fmt.Sprintf("%d:%d", uid, gid)
	}
	user, group, named := strings.Cut(spec, ":")
	id, name, err := a.user(user)
	if err != nil {
		return id, err
	}
	if named {
		id.gid, err = a.groupID(group)
		return id, err
	}
	id.groups = a.memberships(name, id.gid)
	return id, nil
}

// user finds an account by name or number.
func (a accounts) user(user string) (id identity, name string, err error) {
	all, readErr := readFields(a.passwd, 6)
	for _, fields := range all {
		if fields[0] != user && fields[2] != user {
			continue
		}
		uid, err1 := parseID(fields[2])
		gid, err2 := parseID(fields[3])
		if err1 == nil && err2 == nil {
			return identity{uid: uid, gid: gid, home: fields[5]}, fields[0], nil
		}
	}
	uid, err := parseID(user)
	if err != nil {
		return identity{}, "", noUserError("user", user, readErr)
	}
	return identity{uid: uid, home: "/"}, "", nil
}

func (a accounts) groupID(group string) (int, error) {
	all, readErr := readFields(a.group, 3)
	for _, fields := range all {
		if fields[0] != group {
			continue
		}
		if gid, err := parseID(fields[2]); err == nil {
			return gid, nil
		}
	}
	gid, err := parseID(group)
	if err != nil {
		return 0, noUserError("group", group, readErr)
	}
	return gid, nil
}

// memberships returns the groups that list the account.
func (a accounts) memberships(name string, gid int) []int {
	var groups []int
	if name == "" {
		return nil
	}
	all, _ := readFields(a.group, 4) // an unreadable file lists no one
	for _, fields := range all {
		member := slices.Contains(strings.Split(fields[3], ","), name)
		if id, err := parseID(fields[2]); err == nil && member && id != gid && len(groups) < maxGroups {
			groups = append(groups, id)
		}
	}
	return groups
}

// parseID parses a uid or gid, possibly from a tenant's file. The kernel
// reserves -1 and treats 2^32+1 as 1.
func parseID(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

// noUserError returns an error for a name that was not found. It includes why
// the file could not be read, if so.
func noUserError(what, name string, readErr error) error {
	detail := fmt.Sprintf("no %s %q in the container", what, name)
	if readErr != nil {
		detail += ": " + readErr.Error()
	}
	return &runtime.StartError{Reason: runtime.StartUserNotFound, Detail: detail}
}

// Limits on an accounts file. It is in the container, where a tenant may have
// replaced it by anything.
const (
	maxAccountFileSize = 1 << 20 // bytes
	maxGroups          = 1 << 16 // the kernel's limit
)

// readFields returns the lines of a colon-separated file that have at least n
// fields. A missing file has none: many small images have neither file. An
// unreadable file, or one that is not a regular file, is an error.
func readFields(path string, n int) ([][]string, error) {
	text, err := readAccounts(path)
	if err != nil {
		return nil, err
	}
	var all [][]string
	for line := range strings.SplitSeq(text, "\n") {
		if fields := strings.Split(line, ":"); len(fields) >= n {
			all = append(all, fields)
		}
	}
	return all, nil
}

// readAccounts reads a file without blocking: it checks the type of the file
// before it opens it, because opening a pipe or a device may block or have side
// effects.
func readAccounts(path string) (string, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return "", fmt.Errorf("stat %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", fmt.Errorf("%s is not a file", path)
	}
	// If another process has a lease on the file, do not wait for it.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	text, err := io.ReadAll(io.LimitReader(fdReader(fd), maxAccountFileSize+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > maxAccountFileSize {
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxAccountFileSize)
	}
	return string(text), nil
}
