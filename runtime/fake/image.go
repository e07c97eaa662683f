package fake

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
)

// defaultPath is the PATH of commands.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The accounts of every image.
const (
	imagePasswd = "root:x:0:0:root:/root:/bin/sh\n" +
		"app:x:1000:1000:app:/home/app:/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/:/bin/false\n"
	imageGroup = "root:x:0:\napp:x:1000:\nstaff:x:50:app\nnogroup:x:65534:\n"
)

// addImageFiles adds the files of every image to a tree.
func (t *tree) addImageFiles() {
	now := time.Now()
	file := func(name string, n *node) {
		n.modified = now
		t.ensureDir(path.Dir(name)).children[path.Base(name)] = n
	}
	file(TestprogPath, &node{mode: 0o755, program: "box"})
	file(shellPath, &node{mode: 0o755, program: "sh"})
	file("/etc/passwd", &node{mode: 0o644, data: []byte(imagePasswd)})
	file("/etc/group", &node{mode: 0o644, data: []byte(imageGroup)})
}

// User is the user of a process.
type User struct {
	UID, GID int
	Groups   []int // in addition to GID
	home     string
}

// accounts are the files in which names are looked up.
type accounts struct{ passwd, group string }

func (t *tree) accounts() accounts {
	// An image without them has no names, only numbers.
	passwd, _ := t.read("/etc/passwd", nil)
	group, _ := t.read("/etc/group", nil)
	return accounts{string(passwd), string(group)}
}

// lookup resolves uid, uid:gid, name and name:group; an empty spec is root.
func (a accounts) lookup(spec string) (User, error) {
	if spec == "" {
		spec = "0"
	}
	name, group, named := strings.Cut(spec, ":")
	u, account, err := a.user(name)
	if err != nil {
		return User{}, err
	}
	if named {
		u.GID, err = a.groupID(group)
		return u, err
	}
	for _, fields := range entries(a.group, 4) {
		gid, err := strconv.Atoi(fields[2])
		if err == nil && gid != u.GID && slices.Contains(strings.Split(fields[3], ","), account) {
			u.Groups = append(u.Groups, gid)
		}
	}
	return u, nil
}

// user finds an account. A number without an account is valid.
func (a accounts) user(name string) (u User, account string, err error) {
	for _, fields := range entries(a.passwd, 6) {
		uid, err1 := strconv.Atoi(fields[2])
		gid, err2 := strconv.Atoi(fields[3])
		if (fields[0] == name || fields[2] == name) && err1 == nil && err2 == nil {
			return User{UID: uid, GID: gid, home: fields[5]}, fields[0], nil
		}
	}
	uid, err := number("user", name)
	return User{UID: uid, home: "/"}, "", err
}

func (a accounts) groupID(name string) (int, error) {
	for _, fields := range entries(a.group, 3) {
		if gid, err := strconv.Atoi(fields[2]); err == nil && fields[0] == name {
			return gid, nil
		}
	}
	return number("group", name)
}

func number(what, name string) (int, error) {
	n, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return 0, &runtime.StartError{
			Reason: runtime.StartUserNotFound,
			Detail: fmt.Sprintf("there is no %s %q in the container", what, name),
		}
	}
	return int(n), nil
}

// entries returns the lines of an account file that have at least n fields. A
// line without a name is not an account, and belongs to no group.
func entries(text string, n int) [][]string {
	var all [][]string
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(fields) >= n && fields[0] != "" {
			all = append(all, fields)
		}
	}
	return all
}
