package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// runListImageHooks prints the hooks of the image. It runs as the workload's user.
//
//	hostler-shim image-hooks POINT...
func runListImageHooks(points []string) int {
	if err := printImageHooks(os.Stdout, imageFiles{"/", os.Geteuid()}.list(points)); err != nil {
		logError("list the image's hooks", err)
		return exitFailed
	}
	return 0
}

// printImageHooks writes a listing as JSON. What is kept of a command's output holds
// the longest one: 64 hooks of 210 bytes, and 65 refusals of 650.
func printImageHooks(to io.Writer, found runtime.ImageHooks) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	return e.Encode(found)
}

// imageFiles are the files below root, for a user whose commands they are.
type imageFiles struct {
	root string
	uid  int
}

// maxNames is how many names of a directory are read.
const maxNames = 4096

// imageHookLister lists the hooks of an image.
type imageHookLister struct {
	imageFiles
	found   runtime.ImageHooks
	omitted int // refusals that are not listed
}

// list returns the hooks of the image at points.
func (f imageFiles) list(points []string) runtime.ImageHooks {
	l := imageHookLister{imageFiles: f, found: runtime.ImageHooks{Hooks: []runtime.ImageHook{}, Refused: []string{}}}
	names := l.names(runtime.ImageHooksDir)
	for _, point := range points {
		file, dir := path.Join(runtime.ImageHooksDir, point), path.Join(runtime.ImageHooksDir, point+".d")
		if slices.Contains(names, point) {
			l.add(point, file)
		}
		if !slices.Contains(names, point+".d") {
			continue
		}
		for _, name := range l.names(dir) {
			if name == point {
				l.refuse(path.Join(dir, name), errors.New("it has the name of the point"))
				continue
			}
			l.add(point, path.Join(dir, name))
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(points, func(p string) bool { return name == p || name == p+".d" }) {
			l.refuse(path.Join(runtime.ImageHooksDir, name), errors.New("it is of no point at which commands can run"))
		}
	}
	if l.omitted > 0 {
		l.found.Refused = append(l.found.Refused, fmt.Sprintf("%d more are refused", l.omitted))
	}
	return l.found
}

// add adds a hook, or refuses the file.
func (l *imageHookLister) add(point, file string) {
	if len(l.found.Hooks) == runtime.MaxImageHooks { // its content is not read
		l.refuse(file, fmt.Errorf("there are more than %d", runtime.MaxImageHooks))
		return
	}
	digest, err := l.digest(file)
	if err != nil {
		l.refuse(file, err)
		return
	}
	l.found.Hooks = append(l.found.Hooks, runtime.ImageHook{Point: point, Path: file, Digest: digest})
}

func (l *imageHookLister) refuse(file string, err error) {
	if len(l.found.Refused) >= runtime.MaxRefusedImageHooks {
		l.omitted++
		return
	}
	l.found.Refused = append(l.found.Refused, fmt.Sprintf("%.200s is refused: %.120s", strconv.QuoteToASCII(file), err))
}

// names returns the sorted names in a directory; none if it does not exist.
func (l *imageHookLister) names(dir string) []string {
	d, err := l.openDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.refuse(dir, err)
		}
		return nil
	}
	defer d.Close()
	readable, err := l.openIn(int(d.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		l.refuse(dir, err)
		return nil
	}
	defer readable.Close()
	names, err := readable.Readdirnames(maxNames + 1)
	if err == nil && len(names) > maxNames {
		err = fmt.Errorf("it has more than %d files", maxNames)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		l.refuse(dir, err)
		return nil
	}
	slices.Sort(names)
	return names
}

// digest returns the SHA-256 of a file.
func (f imageFiles) digest(file string) (string, error) {
	in, err := f.open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return digestOf(in)
}

// digestOf returns the SHA-256 of what in reads.
func digestOf(in io.Reader) (string, error) {
	sum := sha256.New()
	err := copyImageHook(sum, in)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// open opens a file that the user can read and execute, and cannot change. The
// path must be an absolute one without dots.
func (f imageFiles) open(file string) (*os.File, error) {
	if !runtime.IsImageHookName(path.Base(file)) {
		return nil, errors.New("its name has other characters than letters, digits, points, - and _, or more than 64")
	}
	dir, err := f.openDir(path.Dir(file))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	in, err := f.openIn(int(dir.Fd()), path.Base(file), unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(in.Fd()), &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errors.New("it is not a file")
	case st.Size > runtime.MaxImageHookSize:
		err = fmt.Errorf("it has %d bytes, at most %d are allowed", st.Size, runtime.MaxImageHookSize)
	case unix.Access("/proc/self/fd/"+strconv.Itoa(int(in.Fd())), unix.X_OK) != nil:
		err = errors.New("the user cannot execute it")
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// openDir opens a directory by its path below root, one element after the other.
// It follows no link, and no element may be writable for the user.
func (f imageFiles) openDir(dir string) (*os.File, error) {
	d, err := f.openIn(unix.AT_FDCWD, f.root, unix.O_PATH|unix.O_DIRECTORY)
	for part := range strings.SplitSeq(strings.TrimPrefix(dir, "/"), "/") {
		if err != nil {
			return nil, err
		}
		var next *os.File
		next, err = f.openIn(int(d.Fd()), part, unix.O_PATH|unix.O_DIRECTORY)
		d.Close()
		d = next
	}
	return d, err
}

// openIn opens a name directly in a directory, unless it is a link or the user can
// change it.
func (f imageFiles) openIn(dir int, name string, flags int) (*os.File, error) {
	fd, err := openAt(dir, name, flags, 0)
	if err != nil {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return nil, fmt.Errorf("%q is a link", name)
		}
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	if err := f.checkOwner(fd); err != nil {
		file.Close()
		return nil, fmt.Errorf("%q %w", name, err)
	}
	return file, nil
}

// checkOwner returns an error for a file that the user can change, or that its
// group or everyone can. What root owns root can change: for root only the digest
// protects a file.
func (f imageFiles) checkOwner(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("cannot be examined: %w", err)
	}
	switch {
	case int(st.Uid) == f.uid && f.uid != 0:
		return errors.New("belongs to the user who runs it")
	case st.Mode&0o022 != 0:
		return errors.New("can be changed by its group or by everyone")
	}
	return nil
}
