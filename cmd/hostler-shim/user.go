package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
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
	id, err := a.find(spec)
	if err == nil && isReserved(id) {
		err = reserved
	}
	return id, err
}

// reserved refuses the user that is the shim's own, whatever an image's or a
// tenant's files call it.
var reserved = &runtime.StartError{
	Reason: runtime.StartNoUser,
	Detail: fmt.Sprintf("the user and group %d are hostler's own: say another user in the workload", shim.UID),
}

func isReserved(id identity) bool {
	return id.uid == shim.UID || id.gid == shim.UID || slices.Contains(id.groups, shim.UID)
}

func (a accounts) find(spec string) (identity, error) {
	if spec == "" {
		uid, gid := ownIDs()
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
	for fields := range entries(a.passwd, 6) {
		if fields[0] != user && fields[2] != user {
			continue
		}
		uid, err1 := strconv.Atoi(fields[2])
		gid, err2 := strconv.Atoi(fields[3])
		if err1 == nil && err2 == nil {
			return identity{uid: uid, gid: gid, home: fields[5]}, fields[0], nil
		}
	}
	uid, err := number(user)
	if err != nil {
		return identity{}, "", noUser("user", user)
	}
	return identity{uid: uid, home: "/"}, "", nil
}

func (a accounts) groupID(group string) (int, error) {
	for fields := range entries(a.group, 3) {
		if fields[0] != group {
			continue
		}
		if gid, err := strconv.Atoi(fields[2]); err == nil {
			return gid, nil
		}
	}
	gid, err := number(group)
	if err != nil {
		return 0, noUser("group", group)
	}
	return gid, nil
}

// memberships are the groups that list the account.
func (a accounts) memberships(name string, gid int) []int {
	var groups []int
	if name == "" {
		return nil
	}
	for fields := range entries(a.group, 4) {
		member := slices.Contains(strings.Split(fields[3], ","), name)
		if id, err := strconv.Atoi(fields[2]); err == nil && member && id != gid {
			groups = append(groups, id)
		}
	}
	return groups
}

// number reads a uid or gid. The kernel keeps -1 for itself.
func number(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

func noUser(what, name string) error {
	return &runtime.StartError{
		Reason: runtime.StartNoUser,
		Detail: fmt.Sprintf("there is no %s %q in the container", what, name),
	}
}

// entries yields the lines of a colon-separated file that have at least n
// fields. A file that is not there has none: many small images have neither.
func entries(path string, n int) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fields := strings.Split(lines.Text(), ":")
			if len(fields) >= n && !yield(fields) {
				return
			}
		}
	}
}
