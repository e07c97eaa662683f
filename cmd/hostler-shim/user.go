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

// identity is whom a process runs as.
type identity struct {
	uid, gid int
	groups   []int // besides gid
	home     string
}

// accounts is where names are looked up. There is no libc in here, and no
// other directory than these two files.
type accounts struct {
	passwd, group string
}

var containerAccounts = accounts{passwd: "/etc/passwd", group: "/etc/group"}

// lookup understands uid, uid:gid, name and name:group, as an engine does: an
// unknown number is taken as it is, an unknown name is an error, and groups
// besides the first are the account's own unless one is named. Empty is whoever
// this process is.
func (a accounts) lookup(spec string) (identity, error) {
	id, err := a.resolve(spec)
	if err == nil && isReserved(id) {
		err = errReservedUser
	}
	return id, err
}

// errReservedUser refuses the user that is the shim's own, whatever an image's or a
// tenant's files call it.
var errReservedUser = &runtime.StartError{
	Reason: runtime.StartUserNotFound,
	Detail: fmt.Sprintf("the user and group %d are hostler's own: say another user in the workload", shim.UID),
}

func isReserved(id identity) bool {
	return isShimID(id.uid) || isShimID(id.gid) || slices.ContainsFunc(id.groups, isShimID)
}

// isShimID reports whether a process of ours that is given this number has our
// own user or group afterwards. The kernel sees the lower 32 bits, and takes -1
// for the number that there is.
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

// user finds an account by its name or number.
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

// memberships are the groups that list the account.
func (a accounts) memberships(name string, gid int) []int {
	var groups []int
	if name == "" {
		return nil
	}
	all, _ := readFields(a.group, 4) // a file that cannot be read lists nobody
	for _, fields := range all {
		member := slices.Contains(strings.Split(fields[3], ","), name)
		if id, err := parseID(fields[2]); err == nil && member && id != gid && len(groups) < maxGroups {
			groups = append(groups, id)
		}
	}
	return groups
}

// parseID reads a uid or gid, from a file of a tenant's too. The kernel keeps -1
// for itself, and takes 2^32+1 for 1.
func parseID(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

// noUserError is a name that cannot be found, and why the file with the names cannot
// be read, if so.
func noUserError(what, name string, readErr error) error {
	detail := fmt.Sprintf("there is no %s %q in the container", what, name)
	if readErr != nil {
		detail += ": " + readErr.Error()
	}
	return &runtime.StartError{Reason: runtime.StartUserNotFound, Detail: detail}
}

// What is read of a file with accounts. It is the container's, where a tenant
// may have put anything in its place.
const (
	maxAccountFileSize = 1 << 20 // bytes
	maxGroups          = 1 << 16 // the kernel's own
)

// readFields are the lines of a colon-separated file that have at least n fields.
// A file that is not there has none: many small images have neither. One that
// cannot be read, or is something else, has none either, and says so.
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

// readAccounts reads a file without waiting for anybody: what the name stands
// for is looked at before it is opened, for to open a pipe or a device waits, or
// does something.
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
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", fmt.Errorf("%s is not a file", path)
	}
	// Another process may have a lease on it, which is not waited for.
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
