package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// scratchDirs returns the directories in which a tenant may leave anything: a wipe
// empties them. The suite's container has all; some are missing with a writable
// root.
func scratchDirs() []string {
	return []string{"/data", "/data/nest", "/data/nest/inner", "/srv/app/state", "/tmp", "/var/tmp", "/run", "/dev/shm", "/dev/mqueue"}
}

// inScratchDirs runs f in each scratch directory.
func inScratchDirs(f func(dir string) error) error {
	var all []error
	for _, dir := range scratchDirs() {
		all = append(all, f(dir))
	}
	return anySucceeded(all...)
}

func leftoverAttacks() []attack {
	return []attack{
		{Name: "files", Text: "leave files in every volume and temporary filesystem", run: func(t tenant) error {
			return inScratchDirs(func(dir string) error { return os.WriteFile(dir+"/left", []byte(t.marker), 0o644) })
		}},
		{Name: "files-everywhere", Text: "leave a file in every directory that can be written", run: filesEverywhere},
		{Name: "odd-names", Text: "leave names with newlines, escapes, bad UTF-8 and 255 bytes", run: oddNames},
		{Name: "closed", Text: "leave closed directories in closed directories", run: closedDirs},
		{Name: "deep", Text: "leave two thousand directories in one another", run: func(t tenant) error {
			return inScratchDirs(func(dir string) error { return deepIn(dir, 2000, t.marker) })
		}},
		{Name: "wide", Text: "leave 20,000 files in one directory", run: func(t tenant) error {
			return anySucceeded(wideIn("/data/wide", 20_000), wideIn("/tmp/wide", 5_000))
		}},
		{Name: "special-files", Text: "leave FIFOs, sockets and a device of number 0", run: specialFiles},
		{Name: "links-out", Text: "leave links to all other directories in each volume", run: linksOut},
		{Name: "link-loops", Text: "leave links in circles and to themselves", run: linkLoops},
		{Name: "hard-links", Text: "leave a thousand names of one file", run: hardLinks},
		{Name: "sparse", Text: "leave a file of a terabyte without a block", run: func(tenant) error {
			return inScratchDirs(func(dir string) error { return sparse(dir+"/sparse", 1<<40) })
		}},
		{Name: "dot-names", Text: "leave names that look like the engine's and the shim's in /dev, /run and volumes", run: dotNames},
		{Name: "sticky", Text: "leave sticky, setgid and append directories that inherit what they are", run: stickyDirs},
	}
}

func filesEverywhere(t tenant) error {
	result := errors.New("nothing can be written")
	_ = filepath.WalkDir("/", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if path == "/proc" || path == "/sys" {
			return filepath.SkipDir
		}
		if os.WriteFile(path+"/.left", []byte(t.marker), 0o644) == nil {
			result = nil
		}
		return nil
	})
	return result
}

func oddNames(t tenant) error {
	names := []string{
		"\n" + t.marker, "\xff\xfe" + t.marker, "\x1b[2J" + t.marker, "-rf " + t.marker, "...", `\040` + t.marker, "*", " ",
		strings.Repeat("n", 255), t.marker + "'\"$(id)`", "\xef\xbb\xbf", "con", "a\\b", "\u202e" + t.marker,
	}
	return inScratchDirs(func(dir string) error {
		var all []error
		for _, name := range names {
			all = append(all, os.WriteFile(dir+"/"+name, []byte(t.marker), 0o600))
		}
		return anySucceeded(all...)
	})
}

func closedDirs(t tenant) error {
	return inScratchDirs(func(dir string) error {
		inner := dir + "/closed/more/most"
		if err := os.MkdirAll(inner, 0o700); err != nil {
			return err
		}
		err := os.WriteFile(inner+"/file", []byte(t.marker), 0)
		for _, path := range []string{inner, dir + "/closed/more", dir + "/closed"} {
			err = errors.Join(err, os.Chmod(path, 0))
		}
		return err
	})
}

// deepIn creates nested directories, deeper than a path can name.
func deepIn(dir string, levels int, marker string) error {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(fd) }()
	for i := range levels {
		name := "d"
		if i%100 == 99 {
			name = marker + strings.Repeat("d", 200)
		}
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			return err
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		unix.Close(fd)
		fd = next
	}
	return nil
}

func wideIn(dir string, files int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range files {
		if err := unix.Mknod(fmt.Sprintf("%s/a-name-of-some-length-%d", dir, i), unix.S_IFREG|0o644, 0); err != nil {
			return err
		}
	}
	return nil
}

func specialFiles(t tenant) error {
	return inScratchDirs(func(dir string) error {
		_, err := listenUnix(dir + "/socket")
		return anySucceeded(err, unix.Mkfifo(dir+"/fifo", 0o666), unix.Mknod(dir+"/device", unix.S_IFCHR|0o666, 0), os.Mkdir(dir+"/"+t.marker, 0o755))
	})
}

func listenUnix(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
	}
	return l, err
}

func linksOut(tenant) error {
	return inScratchDirs(func(dir string) error {
		var all []error
		for i, target := range []string{"/", "/app", "/app/server", "/rootonly", "/proc/1/root", "/proc/self/fd", "/.hostler", "/dev", ".."} {
			all = append(all, os.Symlink(target, fmt.Sprintf("%s/out-%d", dir, i)))
		}
		return anySucceeded(all...)
	})
}

func linkLoops(t tenant) error {
	return inScratchDirs(func(dir string) error {
		return anySucceeded(os.Symlink("self", dir+"/self"), os.Symlink("b", dir+"/a"), os.Symlink("a", dir+"/b"),
			os.Symlink(strings.Repeat("x/../", 800), dir+"/long"), os.Symlink(t.marker, dir+"/marker"))
	})
}

func hardLinks(t tenant) error {
	return inScratchDirs(func(dir string) error {
		if err := os.WriteFile(dir+"/one", []byte(t.marker), 0o644); err != nil {
			return err
		}
		for i := range 1000 {
			if err := os.Link(dir+"/one", fmt.Sprintf("%s/one-%d", dir, i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

func dotNames(t tenant) error {
	var all []error
	for _, path := range []string{
		"/dev/stdin2", "/dev/console", "/dev/.udev", "/dev/shm/.hostler", "/run/.containerenv", "/run/utmp", "/tmp/.X11-unix", "/tmp/.hostler-wipe",
		"/data/.hostler", "/data/lost+found", "/.dockerenv2", "/dev/mqueue/hostler", "/data/.wh..wh..opq", "/data/.wh.left", "/dev/initctl", "/dev/log",
	} {
		all = append(all, os.WriteFile(path, []byte(t.marker), 0o644))
	}
	return anySucceeded(all...)
}

func stickyDirs(t tenant) error {
	return inScratchDirs(func(dir string) error {
		path := dir + "/sticky"
		if err := os.Mkdir(path, 0o777); err != nil {
			return err
		}
		return errors.Join(os.WriteFile(path+"/in", []byte(t.marker), 0o600), os.Chmod(path, 0o1000|os.ModeSticky|os.ModeSetgid), unix.Chmod(path, 0o7000))
	})
}
