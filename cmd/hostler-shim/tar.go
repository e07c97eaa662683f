package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// smallFile is up to where a file is read whole before it is packed, so that
// one that is being written is packed as it was at one moment.
const smallFile = 1 << 20

// toolFlags are what tar and untar understand besides the folder.
type toolFlags struct {
	dir  string
	root string
	user string
}

func parseTool(name string, args []string) (toolFlags, error) {
	var f toolFlags
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.StringVar(&f.root, "root", "/", "the folder that nothing may reach out of")
	set.StringVar(&f.user, "user", "", "who owns what is made: uid, uid:gid, name or name:group")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() != 1 {
		return f, errors.New("one folder is needed")
	}
	f.dir = set.Arg(0)
	return f, nil
}

// openDir opens the folder inside the root. In a container the root is "/",
// whose links may point anywhere in it.
func (f toolFlags) openDir() (*os.Root, error) {
	dir, err := f.open()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%w: %s", runtime.ErrNoFile, f.dir)
	}
	return dir, err
}

func (f toolFlags) open() (*os.Root, error) {
	if f.root == "/" {
		return os.OpenRoot(f.dir)
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenRoot("." + path.Clean("/"+f.dir))
}

// toolFailed is a tool's last line on stderr, for shim.ToolError.
func toolFailed(err error) int {
	line, _ := json.Marshal(shim.NewFault(err)) // strings always encode
	fmt.Fprintln(os.Stderr, string(line))
	return exitFailed
}

func runTar(args []string) int {
	f, err := parseTool("tar", args)
	if err != nil {
		return toolFailed(err)
	}
	dir, err := f.openDir()
	if err != nil {
		return toolFailed(err)
	}
	if err := pack(dir, os.Stdout); err != nil {
		return toolFailed(err)
	}
	return 0
}

// pack writes all below dir as a tar stream: files, folders and symbolic
// links. Sockets, pipes and devices mean nothing elsewhere and are left out.
func pack(dir *os.Root, out io.Writer) error {
	w := tar.NewWriter(out)
	err := fs.WalkDir(dir.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we looked
		}
		if err != nil {
			return err
		}
		if name == "." {
			return nil
		}
		err = packEntry(dir, w, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return w.Close()
}

func packEntry(dir *os.Root, w *tar.Writer, name string) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	target := ""
	switch info.Mode().Type() {
	case 0:
		return packFile(dir, w, name)
	case fs.ModeSymlink:
		if target, err = dir.Readlink(name); err != nil {
			return err
		}
	case fs.ModeDir:
	default:
		return nil
	}
	h, err := header(name, info, target)
	if err != nil {
		return err
	}
	return w.WriteHeader(h)
}

// header describes an entry as what it is, and not as whose it is: names and
// numbers of users are those of one container.
func header(name string, info fs.FileInfo, target string) (*tar.Header, error) {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	h.Name, h.Format = name, tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
	}
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	return h, nil
}

func packFile(dir *os.Root, w *tar.Writer, name string) error {
	// It may be something else by now, a pipe that nobody writes for example.
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	h, err := header(name, info, "")
	if err != nil {
		return err
	}
	from := io.Reader(f)
	if info.Size() <= smallFile {
		whole, err := io.ReadAll(io.LimitReader(f, smallFile))
		if err != nil {
			return err
		}
		from, h.Size = bytes.NewReader(whole), int64(len(whole))
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(w, from, h.Size); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s became shorter while it was read", strings.ToValidUTF8(name, "?"))
		}
		return err
	}
	return nil
}
