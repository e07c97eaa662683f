package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

func runUntar(args []string) int {
	f, err := parseTool("untar", args)
	if err != nil {
		return toolFailed(err)
	}
	owner, err := containerAccounts.lookup(f.user)
	if err != nil {
		return toolFailed(err)
	}
	dir, err := f.openDir()
	if err != nil {
		return toolFailed(err)
	}
	u := unpacker{dir: dir, owner: owner, give: os.Geteuid() == 0}
	if err := u.unpack(os.Stdin); err != nil {
		return toolFailed(err)
	}
	return 0
}

// permissionBits are those that an archive may set. Not among them are
// setuid and setgid: an archive is a tenant's.
const permissionBits = fs.ModePerm | fs.ModeSticky

// unpacker makes files below dir. Every access goes through os.Root, which
// follows no link out of it, whatever somebody puts in the way meanwhile.
type unpacker struct {
	dir   *os.Root
	owner identity
	give  bool // whether we may give files to the owner

	folders []*tar.Header // whose mode and time are set when all is in them
}

func (u *unpacker) unpack(from io.Reader) error {
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badArchive("%s", err)
		}
		if err := u.entry(h, r); err != nil {
			return err
		}
	}
	for i := len(u.folders) - 1; i >= 0; i-- {
		if err := u.settle(u.folders[i]); err != nil {
			return fmt.Errorf("finish %s: %w", u.folders[i].Name, err)
		}
	}
	// What comes after the archive is padding. An engine's pipe breaks when
	// nobody reads it.
	_, err := io.Copy(io.Discard, from)
	return err
}

func badArchive(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{runtime.ErrBadArchive}, args...)...)
}

// makers are the kinds of entries that there may be.
var makers = map[byte]func(u *unpacker, h *tar.Header, r io.Reader) error{
	tar.TypeDir:     (*unpacker).makeFolder,
	tar.TypeReg:     (*unpacker).makeFile,
	tar.TypeSymlink: (*unpacker).makeLink,
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	maker, ok := makers[h.Typeflag]
	if !ok {
		return badArchive("%q is neither file, folder nor symbolic link", h.Name)
	}
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		return nil // the folder itself is not the archive's
	}
	h.Name = name
	if err := u.makeParents(name); err != nil {
		return asBadArchive(name, err)
	}
	return asBadArchive(name, maker(u, h, r))
}

// localName refuses names that point outside.
func localName(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || strings.ContainsRune(name, 0) || path.IsAbs(name) ||
		clean == ".." || strings.HasPrefix(clean, "../") {
		return "", badArchive("the name %q points outside", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", badArchive("the name %q points upwards", name)
		}
	}
	return clean, nil
}

// asBadArchive tells faults of the archive from those of the disk. A path that
// leads outside through a link has an error of os.Root without a number.
func asBadArchive(name string, err error) error {
	if err == nil || errors.Is(err, runtime.ErrBadArchive) {
		return err
	}
	var number unix.Errno
	if !errors.As(err, &number) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) ||
		errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENAMETOOLONG) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		return badArchive("%q: %s", name, err)
	}
	return fmt.Errorf("unpack %q: %w", name, err)
}

// makeParents makes folders that the archive does not name.
func (u *unpacker) makeParents(name string) error {
	parent := path.Dir(name)
	if parent == "." {
		return nil
	}
	info, err := u.dir.Stat(parent)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		return unix.ENOTDIR
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := u.makeParents(parent); err != nil {
		return err
	}
	if err := u.dir.Mkdir(parent, 0o755); err != nil {
		return err
	}
	return u.own(parent)
}

func (u *unpacker) own(name string) error {
	if !u.give {
		return nil
	}
	return u.dir.Lchown(name, u.owner.uid, u.owner.gid)
}

func (u *unpacker) makeFolder(h *tar.Header, _ io.Reader) error {
	if info, err := u.dir.Lstat(h.Name); err != nil || !info.IsDir() {
		if err == nil {
			err = u.dir.Remove(h.Name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := u.dir.Mkdir(h.Name, 0o700); err != nil {
			return err
		}
	}
	u.folders = append(u.folders, h)
	return u.own(h.Name)
}

// settle is the last thing done to a folder: files made in it change its time,
// and its mode may forbid to make them.
func (u *unpacker) settle(h *tar.Header) error {
	if info, err := u.dir.Lstat(h.Name); err != nil || !info.IsDir() {
		return nil // a later entry of the same name was something else
	}
	if err := u.dir.Chmod(h.Name, h.FileInfo().Mode()&permissionBits); err != nil {
		return err
	}
	return u.dir.Chtimes(h.Name, accessTime(h), h.ModTime)
}

func accessTime(h *tar.Header) time.Time {
	if h.AccessTime.IsZero() {
		return h.ModTime
	}
	return h.AccessTime
}

// clear makes way for an entry. A file is removed, never written to: it may
// have another name elsewhere.
func (u *unpacker) clear(name string) error {
	info, err := u.dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return unix.EISDIR
	}
	return u.dir.Remove(name)
}

func (u *unpacker) makeFile(h *tar.Header, r io.Reader) error {
	if err := u.clear(h.Name); err != nil {
		return err
	}
	f, err := u.dir.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil && u.give {
		err = f.Chown(u.owner.uid, u.owner.gid)
	}
	if err == nil {
		err = f.Chmod(h.FileInfo().Mode() & permissionBits)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return u.dir.Chtimes(h.Name, accessTime(h), h.ModTime)
}

// makeLink makes a link as it is, to wherever: nothing here follows it out of
// the folder, and the tenant may make such links as well.
func (u *unpacker) makeLink(h *tar.Header, _ io.Reader) error {
	if err := u.clear(h.Name); err != nil {
		return err
	}
	if err := u.dir.Symlink(h.Linkname, h.Name); err != nil {
		return err
	}
	return u.own(h.Name)
}
