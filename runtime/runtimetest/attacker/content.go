package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The image's own files. /app and what is in it belong to the workload's user.
const (
	imageProgram = "/app/server"
	imageText    = "/app/motd"
	imageConf    = "/app/conf"
	imageLink    = "/app/link"
)

func contentAttacks() []attack {
	return []attack{
		{Name: "program-trojan", Text: "replace the main program with another of the same size, its times set back", run: programTrojan, seen: seenTrojan},
		{Name: "write-in-place", Text: "overwrite a file of the image in place, its times set back", run: writeInPlace},
		{Name: "mmap-write", Text: "change a file of the image through a shared mapping that was read first", run: mmapWrite},
		{Name: "mmap-kept", Text: "keep a mapping of a file of the image in a process that continues to write", run: func(t tenant) error { return t.startChild("map") }},
		{Name: "mmap-mounted", User: "root", Text: "change /etc/hosts, resolv.conf and hostname through mappings, times set back", run: mmapMounted},
		{Name: "punch-hole", Text: "punch a hole into a file of the image, its times set back", run: punchHole},
		{Name: "beyond-end", Text: "allocate blocks beyond the end of a file of the image, its size kept", run: beyondEnd},
		{Name: "hidden-file", Text: "create a file in a directory of the image, the directory's times set back", run: hiddenFile},
		{Name: "remade-file", Text: "remove a file of the image and create one with the same content and times", run: remadeFile},
		{Name: "removed-file", Text: "remove a file of the image, its directory's times set back", run: removedFile},
		{Name: "hard-link", Text: "link a file of the image to another name and remove that again", run: hardLink},
		{Name: "hard-link-kept", Text: "link the main program into a volume and change it there", run: hardLinkKept},
		{Name: "symlink-swap", Text: "point a symbolic link of the image elsewhere, with a target of the same length", run: symlinkSwap},
		{Name: "directory-swap", Text: "exchange two directories of the image", run: directorySwap},
		{Name: "copy-up", Text: "open a file of the image for writing and write nothing", run: copyUp},
		{Name: "path-program", Text: "put a program of the same name first in PATH", run: pathProgram},
		{Name: "preload", Text: "leave /etc/ld.so.preload, /etc/profile and a program interpreter", run: preload},
		{Name: "opaque", Text: "mark a directory of the image opaque, and hide a file with a whiteout, as overlay does", run: opaque},
		{Name: "exec-bits", Text: "remove the execute bits of the main program and set setuid", run: execBits},
		{Name: "text-busy", Text: "write to the program that runs through a second name in a volume", run: textBusy},
		{Name: "append-only", Text: "append to a file of the image and truncate it to its old size", run: appendTruncate},
		{Name: "collapse", Text: "move a file's blocks with collapse and insert range, zero range and copy range", run: collapse},
	}
}

// sameTimes runs f and sets the times of path back to what they were.
func sameTimes(path string, f func() error) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// goodMark is in the main program; an attack replaces it with evilMark.
var goodMark, evilMark = []byte("program=unchanged"), []byte("program=different")

func programTrojan(tenant) error {
	return sameTimes("/app", func() error {
		return sameTimes(imageProgram, func() error {
			b, err := os.ReadFile(imageProgram)
			if err != nil {
				return err
			}
			b = bytes.ReplaceAll(b, goodMark, evilMark)
			if err := os.WriteFile(imageProgram+".new", b, 0o755); err != nil {
				return err
			}
			return os.Rename(imageProgram+".new", imageProgram)
		})
	})
}

// seenTrojan runs the program on the disk, which may be another one.
func seenTrojan(tenant) []string {
	out, err := exec.Command(imageProgram, "list").Output()
	if err != nil {
		return []string{"the main program does not run: " + err.Error()}
	}
	b, err := os.ReadFile(imageProgram)
	if err != nil || bytes.Count(b, evilMark) > 1 || !bytes.Contains(out, []byte("program-trojan")) {
		return []string{"the main program is another"}
	}
	return nil
}

// patch overwrites the beginning of a file with the marker.
func patch(path string, t tenant) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte(t.marker), 0)
	return err
}

func writeInPlace(t tenant) error {
	return sameTimes(imageText, func() error { return patch(imageText, t) })
}

// mapped writes through a mapping whose pages were there before the write.
func mapped(path string, t tenant) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return errors.Join(err, errors.New("nothing to map"))
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	first := m[0]
	copy(m, t.marker)
	m[len(m)-1] = first
	return unix.Munmap(m)
}

func mmapWrite(t tenant) error {
	return sameTimes(imageText, func() error { return mapped(imageText, t) })
}

func mmapMounted(t tenant) error {
	var all []error
	for _, path := range []string{"/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/dev/termination-log"} {
		all = append(all, sameTimes(path, func() error { return mapped(path, t) }))
	}
	return anySucceeded(all...)
}

// fallocate changes a file of the image as mode specifies, its times set back.
func fallocate(mode uint32, off, size int64) error {
	return sameTimes(imageText, func() error {
		fd, err := unix.Open(imageText, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fallocate(fd, mode, off, size)
	})
}

func punchHole(tenant) error {
	return fallocate(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)
}

func beyondEnd(tenant) error { return fallocate(unix.FALLOC_FL_KEEP_SIZE, 1<<16, 1<<16) }

func collapse(t tenant) error {
	copied := sameTimes(imageText, func() error {
		from, err := os.Open(imageProgram)
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := os.OpenFile(imageText, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer to.Close()
		var in, out int64
		_, err = unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), &out, 4096, 0)
		return err
	})
	return anySucceeded(fallocate(unix.FALLOC_FL_ZERO_RANGE, 0, 4096), fallocate(unix.FALLOC_FL_INSERT_RANGE, 0, 4096),
		fallocate(unix.FALLOC_FL_COLLAPSE_RANGE, 0, 4096), copied)
}

func hiddenFile(t tenant) error {
	return sameTimes(imageConf, func() error {
		return os.WriteFile(imageConf+"/hidden", []byte(t.marker), 0o644)
	})
}

func remadeFile(tenant) error {
	return sameTimes("/app", func() error {
		return sameTimes(imageText, func() error {
			b, err := os.ReadFile(imageText)
			if err != nil {
				return err
			}
			if err := os.Remove(imageText); err != nil {
				return err
			}
			return os.WriteFile(imageText, b, 0o755)
		})
	})
}

func removedFile(tenant) error {
	return sameTimes(imageConf, func() error { return os.Remove(imageConf + "/default") })
}

func hardLink(tenant) error {
	return sameTimes("/app", func() error {
		if err := os.Link(imageText, "/app/again"); err != nil {
			return err
		}
		return os.Remove("/app/again")
	})
}

func hardLinkKept(t tenant) error {
	var all []error
	for _, dir := range []string{"/data", "/tmp", "/app/conf"} {
		path := dir + "/linked"
		err := os.Link(imageText, path)
		if err == nil {
			err = patch(path, t)
		}
		all = append(all, err)
	}
	return anySucceeded(all...)
}

func symlinkSwap(tenant) error {
	return sameTimes("/app", func() error {
		target, err := os.Readlink(imageLink)
		if err != nil {
			return err
		}
		if err := os.Remove(imageLink); err != nil {
			return err
		}
		return os.Symlink(strings.Repeat("x", len(target)), imageLink)
	})
}

func directorySwap(tenant) error {
	return sameTimes("/app", func() error {
		return unix.Renameat2(unix.AT_FDCWD, imageConf, unix.AT_FDCWD, "/app/other", unix.RENAME_EXCHANGE)
	})
}

func copyUp(tenant) error {
	f, err := os.OpenFile(imageText, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func pathProgram(tenant) error {
	var all []error
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/bin"} {
		all = append(all, os.MkdirAll(dir, 0o755), copySelf(filepath.Join(dir, "attacker")))
	}
	return anySucceeded(all...)
}

func preload(t tenant) error {
	var all []error
	for _, path := range []string{"/etc/ld.so.preload", "/etc/profile", "/lib64/ld-linux-x86-64.so.2", "/root/.profile", "/etc/environment"} {
		all = append(all, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(t.marker), 0o755))
	}
	return anySucceeded(all...)
}

func opaque(tenant) error {
	var all []error
	for _, name := range []string{"trusted.overlay.opaque", "user.overlay.opaque", "trusted.overlay.redirect"} {
		all = append(all, unix.Setxattr(imageConf, name, []byte("y"), 0))
	}
	for _, dir := range []string{imageConf, "/data", "/tmp", "/"} {
		all = append(all, unix.Mknod(dir+"/whiteout", unix.S_IFCHR, 0))
	}
	return anySucceeded(all...)
}

func execBits(tenant) error {
	return anySucceeded(os.Chmod(imageText, 0o4755|os.ModeSetuid), os.Chmod(imageProgram, 0o644))
}

func textBusy(tenant) error {
	if err := os.Link(imageProgram, "/app/second"); err != nil {
		return err
	}
	f, err := os.OpenFile("/app/second", os.O_RDWR, 0)
	if err != nil {
		return err // the link is what is left
	}
	return f.Close()
}

func appendTruncate(t tenant) error {
	return sameTimes(imageText, func() error {
		info, err := os.Stat(imageText)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(imageText, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(t.marker)
		return errors.Join(err, f.Truncate(info.Size()))
	})
}
