package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// stateDir is what the suite's release reads, like a mapping of a workload.
const stateDir = "/data/state"

// archiveAttacks are what a release finds in the state. The release may handle it
// in any way, within a bound; the next tenant must not be affected.
func archiveAttacks() []attack {
	state := func(name, text string, run func(t tenant) error) attack {
		return attack{Name: name, Text: text, State: true, run: run}
	}
	replaced := func(create func() error) func(tenant) error {
		return func(tenant) error {
			if err := os.RemoveAll(stateDir); err != nil {
				return err
			}
			return create()
		}
	}
	link := func(target string) func(tenant) error {
		return replaced(func() error { return os.Symlink(target, stateDir) })
	}
	return []attack{
		state("state-link-root-only", "link the state to a directory that only root may read", link("/rootonly")),
		state("state-link-proc", "link the state to process 1 in /proc", link("/proc/1")),
		state("state-link-shim", "link the state to the shim's directory", link(shimDir)),
		state("state-link-self", "link the state to itself", link(stateDir)),
		state("state-link-dev", "link the state to /dev and its endless files", link("/dev")),
		state("state-link-inside", "link a directory of the state, and a file, to what only root may read", func(tenant) error {
			return errors.Join(os.Symlink("/rootonly", stateDir+"/dir"), os.Symlink("/rootonly/key", stateDir+"/key"), os.Symlink("/proc/1/environ", stateDir+"/environ"))
		}),
		state("state-hard-link", "link files of others into the state", func(tenant) error {
			return anySucceeded(os.Link("/rootonly/key", stateDir+"/key"), os.Link("/etc/shadow", stateDir+"/shadow"), os.Link("/attacker", stateDir+"/attacker"), os.Link(imageText, stateDir+"/text"))
		}),
		state("state-fifo", "replace the state with a FIFO", replaced(func() error { return unix.Mkfifo(stateDir, 0o666) })),
		state("state-socket", "replace the state with a socket", replaced(func() error { _, err := listenUnix(stateDir); return err })),
		state("state-file", "replace the state with a file", replaced(func() error { return os.WriteFile(stateDir, []byte("x"), 0o644) })),
		state("state-missing", "remove the state's directory", replaced(func() error { return nil })),
		state("state-closed", "close the state to every user", func(tenant) error { return os.Chmod(stateDir, 0) }),
		state("state-unreadable", "fill the state with files that no user may read", unreadable),
		state("state-names", "fill the state with names that are difficult in archives", archiveNames),
		state("state-deep", "nest the state deeper than a path can name", func(t tenant) error { return deepIn(stateDir, 3000, t.marker) }),
		state("state-wide", "fill the state with 20,000 empty directories of long names", wideDirs),
		state("state-huge", "a file of a terabyte and one of eight exabytes in the state", func(tenant) error {
			return anySucceeded(sparse(stateDir+"/tera", 1<<40), sparse(stateDir+"/exa", 1<<62))
		}),
		state("state-special", "FIFOs, sockets, devices and links instead of files in the state", specialState),
		state("state-times", "times before 1970, after 2400 and of many digits", func(tenant) error {
			var all []error
			for i, sec := range []int64{-1 << 33, 1 << 33, -1, 1<<34 - 1, 253402300800} {
				path := fmt.Sprintf("%s/at-%d", stateDir, i)
				all = append(all, os.WriteFile(path, nil, 0o644), setTimes(path, sec))
			}
			return anySucceeded(all...)
		}),
		state("state-attributes", "attributes, ACLs and flags on the state", func(t tenant) error {
			return anySucceeded(manyXattrs(stateDir, t.marker), setACL(stateDir), setDefaultACL(stateDir), setFlags(stateDir))
		}),
		state("state-setuid", "programs with setuid, setgid and capabilities in the state", func(tenant) error {
			if err := copySelf(stateDir + "/program"); err != nil {
				return err
			}
			return errors.Join(unix.Chmod(stateDir+"/program", 0o6755))
		}),
		state("state-hard-names", "a thousand names of one large file", func(tenant) error {
			if err := os.WriteFile(stateDir+"/large", make([]byte, 1<<20), 0o644); err != nil {
				return err
			}
			for i := range 300 {
				if err := os.Link(stateDir+"/large", fmt.Sprintf("%s/large-%d", stateDir, i)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func unreadable(t tenant) error {
	for i := range 50 {
		dir := fmt.Sprintf("%s/dir-%d", stateDir, i)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(dir+"/file", []byte(t.marker), 0), os.Chmod(dir, 0)); err != nil {
			return err
		}
	}
	return nil
}

func archiveNames(t tenant) error {
	names := []string{
		"..\\..\\etc", "\n", "\xff", "PaxHeaders.0", "././@LongLink", strings.Repeat("ü", 127), "a\x01b", "-", "--checkpoint-action=exec=sh", "C:", "NUL",
		"path=x\n", "12 path=/etc/passwd", t.marker, strings.Repeat("x", 255), ".wh.x", "\x1b]0;title\a",
	}
	var all []error
	for _, name := range names {
		all = append(all, os.WriteFile(stateDir+"/"+name, []byte(t.marker), 0o644), os.Mkdir(stateDir+"/d"+name, 0o755))
	}
	return anySucceeded(all...)
}

func wideDirs(tenant) error {
	name := strings.Repeat("n", 240)
	for i := range 20_000 {
		if err := os.Mkdir(fmt.Sprintf("%s/%s%d", stateDir, name, i), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func specialState(tenant) error {
	_, err := listenUnix(stateDir + "/socket")
	return anySucceeded(err, unix.Mkfifo(stateDir+"/fifo", 0o666), unix.Mknod(stateDir+"/device", unix.S_IFCHR, 0),
		os.Symlink("/dev/zero", stateDir+"/zero"), os.Symlink(strings.Repeat("x", 4000), stateDir+"/long"))
}
