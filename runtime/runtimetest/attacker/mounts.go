package main

import (
	"errors"
	"os"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

func mountAttacks() []attack {
	return []attack{
		{Name: "above-volume", User: "root", Text: "rename the directory above a volume and create another of its name", run: func(tenant) error {
			return errors.Join(os.Rename("/srv/app", "/srv/old"), os.MkdirAll("/srv/app/state", 0o777))
		}},
		{Name: "above-volume-link", User: "root", Text: "replace the directory above a volume with a symbolic link", run: func(tenant) error {
			return errors.Join(os.Rename("/srv", "/old"), os.MkdirAll("/tmp/fake/app/state", 0o777), os.Symlink("/tmp/fake", "/srv"))
		}},
		{Name: "nested-rename", Text: "rename the directory between two volumes, which takes the inner one along", run: func(tenant) error {
			return errors.Join(os.Rename("/data/nest", "/data/moved"), os.MkdirAll("/data/nest/inner", 0o777))
		}},
		{Name: "nested-link", Text: "replace it with a link to the image, so that a wipe would empty the image", run: func(tenant) error {
			return errors.Join(os.Rename("/data/nest", "/data/moved"), os.MkdirAll("/data/fake", 0o755), os.Symlink("/app", "/data/nest"), os.Symlink("/app", "/data/fake/inner"))
		}},
		{Name: "nested-exchange", Text: "exchange the directory between two volumes with another in one step", run: func(tenant) error {
			if err := os.MkdirAll("/data/other/inner", 0o777); err != nil {
				return err
			}
			return unix.Renameat2(unix.AT_FDCWD, "/data/nest", unix.AT_FDCWD, "/data/other", unix.RENAME_EXCHANGE)
		}},
		{Name: "nested-deep", Text: "move the inner volume two thousand directories deep", run: func(t tenant) error {
			if err := deepIn("/data", 40, t.marker); err != nil {
				return err
			}
			return os.Rename("/data/nest", "/data/d/d/d/d/d/d/d/d/nest")
		}},
		{Name: "nested-closed", Text: "close the directory between two volumes, and the volumes, to every user", run: func(tenant) error {
			return anySucceeded(os.Chmod("/data/nest/inner", 0), os.Chmod("/data/nest", 0), os.Chmod("/data", 0))
		}},
		{Name: "mount-points", Text: "remove and replace every mount point", run: mountPoints},
		{Name: "mount", Text: "mount over the image with every available call", run: mountAll},
		{Name: "unmount", Text: "unmount and remount volumes and temporary filesystems", run: unmountAll},
		{Name: "namespaces", Text: "make namespaces in which mounting is allowed, or enter others", run: namespaces},
		{Name: "chroot", Text: "change the root and leave a directory descriptor outside", run: chroot},
	}
}

func mountPoints(t tenant) error {
	var all []error
	for _, dir := range append(scratchDirs(), "/dev", "/proc", "/sys", "/etc/hosts", "/ro") {
		all = append(all, os.Remove(dir), os.Rename(dir, dir+"-old"), os.Rename(dir, "/data/here"))
	}
	return anySucceeded(all...)
}

func mountAll(t tenant) error {
	var all []error
	for _, dir := range []string{imageConf, "/app", "/mnt", "/data", "/etc"} {
		all = append(all, unix.Mount("none", dir, "tmpfs", 0, ""), unix.Mount("/data", dir, "", unix.MS_BIND, ""),
			unix.Mount("proc", dir, "proc", 0, ""), unix.Mount("mqueue", dir, "mqueue", 0, ""))
	}
	fs, err := unix.Fsopen("tmpfs", 0)
	all = append(all, err)
	if err == nil {
		unix.Close(fs)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, "/data", unix.OPEN_TREE_CLONE)
	if err == nil {
		err = unix.MoveMount(tree, "", unix.AT_FDCWD, imageConf, unix.MOVE_MOUNT_F_EMPTY_PATH)
		unix.Close(tree)
	}
	return anySucceeded(append(all, err)...)
}

func unmountAll(tenant) error {
	var all []error
	for _, dir := range append(scratchDirs(), "/proc", "/etc/hosts", "/dev", "/ro", shimDir, shimBin, shimRun) {
		all = append(all, unix.Unmount(dir, unix.MNT_DETACH),
			unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_REMOUNT, "size=1g"))
	}
	return anySucceeded(all...)
}

// onThread runs f on a separate thread, which ends with it.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() { // ends with f
		goruntime.LockOSThread()
		done <- f()
	}()
	return <-done
}

func namespaces(tenant) error {
	var all []error
	for _, flags := range []int{
		unix.CLONE_NEWUSER, unix.CLONE_NEWUSER | unix.CLONE_NEWNS, unix.CLONE_NEWNS, unix.CLONE_NEWIPC, unix.CLONE_NEWNET,
		unix.CLONE_NEWPID, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWTIME,
	} {
		all = append(all, onThread(func() error { return unix.Unshare(flags) }))
	}
	for _, name := range []string{"mnt", "pid", "ipc", "net", "user"} {
		f, err := os.Open("/proc/1/ns/" + name)
		if err == nil {
			err = onThread(func() error { return unix.Setns(int(f.Fd()), 0) })
			f.Close()
		}
		all = append(all, err)
	}
	return anySucceeded(append(all, unix.Sethostname([]byte("hostile")))...)
}

func chroot(t tenant) error {
	return anySucceeded(onThread(func() error { return unix.Chroot("/data") }), unix.PivotRoot("/data", "/data"),
		os.WriteFile("/sys/fs/cgroup/cgroup.procs", []byte("1"), 0), os.Mkdir("/sys/fs/cgroup/mine", 0o755),
		os.Mkdir("/sys/fs/cgroup/memory/mine", 0o755), os.WriteFile("/proc/sys/fs/mqueue/msg_default", []byte("7"), 0),
		os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40100"), 0),
		os.WriteFile("/proc/sys/kernel/shm_rmid_forced", []byte("1"), 0))
}
