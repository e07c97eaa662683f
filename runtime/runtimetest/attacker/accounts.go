package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// accountAttacks change the account files, which the shim reads itself. In the
// image they belong to root.
func accountAttacks() []attack {
	both := func(f func(path string) error) func(tenant) error {
		return func(tenant) error { return anySucceeded(f("/etc/passwd"), f("/etc/group")) }
	}
	instead := func(create func(path string) error) func(tenant) error {
		return both(func(path string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return create(path)
		})
	}
	row := func(name, text string, run func(tenant) error) attack {
		return attack{Name: name, Text: text, User: "root", run: run}
	}
	return []attack{
		row("accounts-fifo", "replace /etc/passwd and /etc/group with FIFOs", instead(func(p string) error { return unix.Mkfifo(p, 0o666) })),
		row("accounts-endless", "link them to /dev/zero", instead(func(p string) error { return os.Symlink("/dev/zero", p) })),
		row("accounts-terminal", "link them to a terminal without a writer", instead(func(p string) error { return os.Symlink("/dev/ptmx", p) })),
		row("accounts-huge", "make them a terabyte long and empty", both(func(p string) error { return os.Truncate(p, 1<<40) })),
		row("accounts-line", "make them one line of 64 MB", both(func(p string) error {
			return os.WriteFile(p, []byte("root:x:0:0:"+strings.Repeat("x", 64<<20)), 0o644)
		})),
		row("accounts-forged", "forge entries of the same length, times set back", both(func(p string) error {
			return sameTimes(p, func() error {
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				return os.WriteFile(p, []byte(strings.ReplaceAll(string(b), ":1001:", ":1002:")), 0o644)
			})
		})),
		row("accounts-many", "give the workload's user sixty thousand groups and a home of the tenant's", func(tenant) error {
			var text strings.Builder
			for i := range 60_000 {
				fmt.Fprintf(&text, "g%d:x:%d:root,alice\n", i, i+2000)
			}
			return errors.Join(os.WriteFile("/etc/group", []byte(text.String()), 0o644),
				os.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/data/state:/bin/sh\nalice:x:1001:1001::/data/state:\n"), 0o644))
		}),
		row("accounts-directory", "replace them with directories", instead(func(p string) error { return os.Mkdir(p, 0o755) })),
		row("accounts-missing", "move all of /etc away", func(tenant) error { return os.Rename("/etc", "/etc2") }),
	}
}
