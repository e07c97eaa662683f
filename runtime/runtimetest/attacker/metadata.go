package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// forgedTime is a message in a time.
const forgedTime = 1234567890

func setTimes(path string, sec int64) error {
	ts := []unix.Timespec{{Sec: sec, Nsec: 123}, {Sec: sec, Nsec: 456}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW)
}

// setACL puts a message into an ACL that does not change the mode.
func setACL(path string) error {
	entry := func(b []byte, tag, perm uint16, id uint32) []byte {
		return append(b, byte(tag), byte(tag>>8), byte(perm), byte(perm>>8), byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	const none = 0xffffffff
	b := []byte{2, 0, 0, 0}
	b = entry(b, 1, 7, none)
	b = entry(b, 2, 7, 0x5ec2e7)
	b = entry(b, 4, 5, none)
	b = entry(b, 0x10, 7, none)
	b = entry(b, 0x20, 5, none)
	return unix.Setxattr(path, "system.posix_acl_access", b, 0)
}

func setDefaultACL(path string) error {
	b := []byte{2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 7, 0, 0xe7, 0xc2, 0x5e, 0,
		4, 0, 5, 0, 255, 255, 255, 255, 0x10, 0, 7, 0, 255, 255, 255, 255, 0x20, 0, 5, 0, 255, 255, 255, 255}
	return unix.Setxattr(path, "system.posix_acl_default", b, 0)
}

// onScratchDirs runs f on the directories that a wipe empties and keeps, and on
// those between two of them.
func onScratchDirs(f func(dir string) error) func(tenant) error {
	return func(tenant) error { return inScratchDirs(f) }
}

func metadataAttacks() []attack {
	image := func(f func(path string) error) func(tenant) error {
		return func(tenant) error { return anySucceeded(f(imageConf), f(imageText), f("/app"), f("/")) }
	}
	return []attack{
		{Name: "image-xattr", Text: "set attributes on files and directories of the image", run: func(t tenant) error {
			set := func(path string) error { return unix.Setxattr(path, "user.residue", []byte(t.marker), 0) }
			return anySucceeded(set(imageConf), set(imageText), set("/app"), set("/"))
		}},
		{Name: "image-acl", Text: "set ACLs on files and directories of the image", run: image(setACL)},
		{Name: "image-default-acl", Text: "set ACLs that are inherited from directories of the image", run: image(setDefaultACL)},
		{Name: "image-times", Text: "put a message into the times of the image's files", run: image(func(p string) error { return setTimes(p, forgedTime) })},
		{Name: "image-modes", Text: "change modes of the image's files and set them back", run: image(changeAndBack)},
		{Name: "volume-xattr", Text: "set attributes on the directories that a wipe empties", run: func(t tenant) error {
			return inScratchDirs(func(dir string) error { return unix.Setxattr(dir, "user.residue", []byte(t.marker), 0) })
		}},
		{Name: "volume-many-xattrs", Text: "set as many attributes there as the kernel takes", run: func(t tenant) error {
			return inScratchDirs(func(dir string) error { return manyXattrs(dir, t.marker) })
		}},
		{Name: "volume-acl", Text: "set ACLs on the directories that a wipe empties", run: onScratchDirs(setACL)},
		{Name: "volume-default-acl", Text: "set ACLs there that what is made in them inherits", run: onScratchDirs(setDefaultACL)},
		{Name: "volume-modes", Text: "set sticky, setgid and no rights on the directories that a wipe empties", run: onScratchDirs(func(dir string) error {
			return unix.Chmod(dir, 0o7000)
		})},
		{Name: "volume-times", Text: "put a message into the times of the directories that a wipe empties", run: onScratchDirs(func(dir string) error {
			return setTimes(dir, forgedTime)
		})},
		{Name: "volume-size", Text: "make a volume's directory large and empty it again: its size stays", run: volumeSize},
		{Name: "volume-group", Text: "give the directories that a wipe empties to other groups and users", run: onScratchDirs(func(dir string) error {
			return anySucceeded(os.Lchown(dir, -1, 50), os.Lchown(dir, 4242, 4242))
		})},
		{Name: "between", Text: "change mode, attributes, ACL and times of a directory between two volumes", run: between},
		{Name: "mounted-files", User: "root", Text: "change mode, times and ACL of /etc/hosts, resolv.conf and hostname", run: mountedFiles},
		{Name: "devices-mode", User: "root", Text: "change modes of devices in /dev", run: devices(func(p string) error { return os.Chmod(p, 0o642) })},
		{Name: "devices-acl", User: "root", Text: "set ACLs on devices in /dev", run: devices(setACL)},
		{Name: "devices-times", User: "root", Text: "put a message into the times of devices in /dev", run: devices(func(p string) error { return setTimes(p, forgedTime) })},
		{Name: "devices-replaced", User: "root", Text: "replace /dev/null with a file and /dev/zero with a FIFO", run: replaceDevices},
		{Name: "dev-pts", User: "root", Text: "change modes and times of /dev/pts and its ptmx", run: devPts},
		{Name: "dev-links", User: "root", Text: "change the links, modes and times of /dev itself", run: devLinks},
		{Name: "proc-net-modes", User: "root", Text: "change modes of /proc/net, which last as long as the network namespace", run: procNetModes},
	}
}

func changeAndBack(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, 0o700), os.Chmod(path, info.Mode().Perm()))
}

func manyXattrs(dir, marker string) error {
	if err := unix.Setxattr(dir, "user.residue", []byte(marker), 0); err != nil {
		return err
	}
	for i := range 3000 {
		if unix.Setxattr(dir, fmt.Sprintf("user.%s.%d", marker, i), nil, 0) != nil {
			break // as many as there is room for
		}
	}
	return nil
}

func volumeSize(tenant) error {
	return inScratchDirs(func(dir string) error {
		const files = 3000
		for i := range files {
			if err := unix.Mknod(fmt.Sprintf("%s/%0200d", dir, i), unix.S_IFREG|0o600, 0); err != nil {
				return err
			}
		}
		for i := range files {
			_ = os.Remove(fmt.Sprintf("%s/%0200d", dir, i))
		}
		return nil
	})
}

func between(t tenant) error {
	const dir = "/data/nest"
	return anySucceeded(unix.Setxattr(dir, "user.residue", []byte(t.marker), 0), setACL(dir), setDefaultACL(dir),
		os.Chmod(dir, 0o701), setTimes(dir, forgedTime), setFlags(dir), setTimes("/srv/app", forgedTime))
}

func mountedFiles(tenant) error {
	var all []error
	for _, path := range []string{"/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/dev/termination-log"} {
		all = append(all, os.Chmod(path, 0o641), setTimes(path, forgedTime), setACL(path))
	}
	return anySucceeded(all...)
}

func devices(f func(path string) error) func(tenant) error {
	return func(tenant) error {
		var all []error
		for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
			all = append(all, f("/dev/"+name))
		}
		return anySucceeded(all...)
	}
}

func replaceDevices(t tenant) error {
	return anySucceeded(
		errors.Join(os.Remove("/dev/null"), os.WriteFile("/dev/null", []byte(t.marker), 0o666)),
		errors.Join(os.Remove("/dev/zero"), unix.Mkfifo("/dev/zero", 0o666)),
		errors.Join(os.Rename("/dev/full", "/dev/full2"), os.Symlink("zero", "/dev/full")),
	)
}

func devPts(tenant) error {
	return anySucceeded(os.Chmod("/dev/pts/ptmx", 0o641), setTimes("/dev/pts/ptmx", forgedTime), os.Chmod("/dev/pts", 0o751), setTimes("/dev/pts", forgedTime))
}

func devLinks(tenant) error {
	return anySucceeded(errors.Join(os.Remove("/dev/stdout"), os.Symlink("/tmp/out", "/dev/stdout")),
		setTimes("/dev/fd", forgedTime), os.Chmod("/dev", 0o751), setTimes("/dev", forgedTime), setFlags("/dev"))
}

func procNetModes(tenant) error {
	var all []error
	for _, name := range []string{"arp", "dev", "route", "unix", "snmp"} {
		all = append(all, os.Chmod("/proc/net/"+name, 0o641), os.Chown("/proc/net/"+name, 0, 4242))
	}
	return anySucceeded(all...)
}
