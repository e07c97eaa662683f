package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// outsideText is the content of every file that must not be reached.
const outsideText = "outside of what is allowed"

// pathTricks are paths that try to leave /work. %R is the directory that stands for
// the container's root.
var pathTricks = []struct {
	desc string
	path string // below the root
	link string // the target of the link /work/link, made first
	read runtime.FileReason
}{
	{"another directory", "/outside/file", "", runtime.FileOutside},
	{"a name that begins as the directory", "/workother/file", "", runtime.FileOutside},
	{"dot dot", "/work/../outside/file", "", runtime.FileOutside},
	{"dot dot after a directory", "/work/dir/../../outside/file", "", runtime.FileOutside},
	{"dot dot after a file", "/work/file/../../outside/file", "", runtime.FileOutside},
	{"many dot dots", "/work/../../../../../../../../outside/file", "", runtime.FileOutside},
	{"dots and slashes", "/work/.//..///./outside//file", "", runtime.FileOutside},
	{"from the root", "//outside/file", "", runtime.FileOutside},
	{"the root", "/", "", runtime.FileOutside},
	{"dot dot that comes back", "/outside/../work/../outside/file", "", runtime.FileOutside},
	{"a slash at the end", "/outside/file/", "", runtime.FileOutside},
	{"NUL", "/work/\x00/../../outside/file", "", runtime.FileInvalid},
	{"NUL at the end", "/work/file\x00", "", runtime.FileInvalid},
	{"a relative path", "work/../outside/file", "", runtime.FileInvalid},
	{"an empty path", "", "", runtime.FileInvalid},
	{"a path that is too long", "/work/" + strings.Repeat("x/../", 900) + "../outside/file", "", runtime.FileInvalid},
	{"a long path", "/work/" + strings.Repeat("./", 1900) + "../outside/file", "", runtime.FileOutside},
	{"a name that is too long", "/work/" + strings.Repeat("x", 300), "", runtime.FileInvalid},
	{"two dots of Unicode", "/work/\u2025/outside/file", "", runtime.FileNotFound},
	{"full-width dots", "/work/\uff0e\uff0e/outside/file", "", runtime.FileNotFound},
	{"a full-width slash", "/work/..\uff0foutside\uff0ffile", "", runtime.FileNotFound},
	{"a division slash", "/work/..\u2215outside\u2215file", "", runtime.FileNotFound},
	{"an overlong slash", "/work/..\xc0\xafoutside\xc0\xaffile", "", runtime.FileNotFound},
	{"invalid UTF-8", "/work/\xff\xfe/../../outside/file", "", runtime.FileOutside},
	{"percent-encoded dots", "/work/%2e%2e/outside/file", "", runtime.FileNotFound},
	{"a backslash", `/work/..\outside\file`, "", runtime.FileNotFound},
	{"three dots", "/work/.../outside/file", "", runtime.FileNotFound},
	{"a name with a dash", "/work/-rf", "", runtime.FileNotFound},
	{"a name with a newline", "/work/\n/outside/file", "", runtime.FileNotFound},
	{"an absolute link to a file", "/work/link", "%R/outside/file", runtime.FileOutside},
	{"an absolute link to a directory", "/work/link/file", "%R/outside", runtime.FileOutside},
	{"a relative link to a file", "/work/link", "../outside/file", runtime.FileOutside},
	{"a relative link to a directory", "/work/link/file", "../outside", runtime.FileOutside},
	{"a link upwards", "/work/link/outside/file", "..", runtime.FileOutside},
	{"a link upwards from below", "/work/link/outside/file", "dir/../..", runtime.FileOutside},
	{"a link to a link", "/work/link/file", "chain", runtime.FileOutside},
	{"a link through a link", "/work/link", "chain/file", runtime.FileOutside},
	{"a link that comes back", "/work/link", "../work/../outside/file", runtime.FileOutside},
	{"a link to itself", "/work/link", "link", runtime.FileInvalid},
	{"a loop of links", "/work/link/file", "loop", runtime.FileInvalid},
	{"a link to the root", "/work/link/etc/passwd", "/", runtime.FileOutside},
	{"a link to passwd", "/work/link", "/etc/passwd", runtime.FileOutside},
	{"a link with slashes", "/work/link", "..//../..///etc/passwd", runtime.FileOutside},
	{"a link to nothing outside", "/work/link", "../outside/new", runtime.FileOutside},
	{"a link to the root of the process", "/work/link/etc/passwd", "/proc/self/root", runtime.FileOutside},
	{"a link to the working directory", "/work/link/etc/passwd", "/proc/self/cwd", runtime.FileOutside},
	{"a link to a handle", "/work/link", "/proc/self/fd/0", runtime.FileOutside},
	{"a link to stdin", "/work/link", "/dev/stdin", runtime.FileOutside},
	{"a link to /dev/fd", "/work/link/0", "/dev/fd", runtime.FileOutside},
	{"a link to memory", "/work/link", "/proc/self/mem", runtime.FileOutside},
	{"an absolute link into the directory", "/work/link", "%R/work/file", runtime.FileOutside},
	{"a pipe", "/work/pipe", "", runtime.FileNotRegular},
	{"a device", "/work/device", "", runtime.FileNotRegular},
	{"a socket", "/work/socket", "", runtime.FileNotRegular},
	{"below a file", "/work/file/file", "", runtime.FileNotDir},
}

// newEscapeTree creates what the tricks need.
func newEscapeTree(t *testing.T, link string) (string, func(path string) shim.FileRequest) {
	t.Helper()
	root, at := fileRoot(t)
	for _, dir := range []string{"outside", "workother"} {
		writeTestFile(t, root+"/"+dir+"/file", outsideText)
	}
	writeTestFile(t, root+"/work/file", "inside")
	writeTestFile(t, root+"/work/dir/file", "inside")
	require.NoError(t, os.Symlink("../outside", root+"/work/chain"))
	require.NoError(t, os.Symlink("loop2", root+"/work/loop"))
	require.NoError(t, os.Symlink("loop", root+"/work/loop2"))
	require.NoError(t, unix.Mkfifo(root+"/work/pipe", 0o666))
	require.NoError(t, unix.Mknod(root+"/work/device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
	require.NoError(t, unix.Mknod(root+"/work/socket", unix.S_IFSOCK|0o666, 0))
	if link != "" {
		require.NoError(t, os.Symlink(strings.ReplaceAll(link, "%R", root), root+"/work/link"))
	}
	return root, func(path string) shim.FileRequest {
		r := at(path)
		r.Within = [][]byte{[]byte("/work")}
		r.Recursive, r.Limit = true, 100
		return r
	}
}

// checkOutside checks that nothing outside has changed.
func checkOutside(t *testing.T, root, desc string) {
	t.Helper()
	require.Subset(t, []string{"outside", "work", "workother"}, namesIn(t, root), desc)
	for _, dir := range []string{"outside", "workother"} {
		require.Equal(t, []string{"file"}, namesIn(t, filepath.Join(root, dir)), desc)
		text, err := os.ReadFile(filepath.Join(root, dir, "file"))
		require.NoError(t, err, desc)
		require.Equal(t, outsideText, string(text), desc)
	}
}

// packedFile returns an archive with one file.
func packedFile(t *testing.T, name string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 3}))
	_, err := w.Write([]byte("new"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// No path leads out of the allowed directory, for any operation.
func TestPathTricks(t *testing.T) {
	require.GreaterOrEqual(t, len(pathTricks), 40)
	passwd, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	archive := packedFile(t, "file")
	for _, k := range pathTricks {
		for op := range fileOps {
			input := "new"
			if op == shim.FileUntar {
				input = archive
			}
			root, at := newEscapeTree(t, k.link)
			answer := workOnFile(t, op, at(k.path), input)
			require.NotContains(t, answer.content, outsideText, "%s: %s", op, k.desc)
			require.NotContains(t, answer.content, string(passwd[:10]), "%s: %s", op, k.desc)
			for _, e := range answer.entries {
				require.NotEqual(t, int64(len(outsideText)), e.Size, "%s: %s", op, k.desc)
			}
			if op == shim.FileRead {
				require.Equal(t, k.read, answer.result.Reason, "%s: %s", k.desc, answer.result.Detail)
			}
			checkOutside(t, root, string(op)+": "+k.desc)
		}
	}
}

// An allowed directory that is a link, or below one, is none: a tenant may have
// made it.
func TestAllowedDirIsALink(t *testing.T) {
	root, at := fileRoot(t)
	writeTestFile(t, root+"/outside/dir/file", outsideText)
	require.NoError(t, os.Symlink("outside", root+"/work"))
	for _, within := range []string{"/work", "/work/dir"} {
		r := at("/work/dir/file")
		r.Within = [][]byte{[]byte(within)}
		for op := range fileOps {
			answer := workOnFile(t, op, r, "new")
			require.Equal(t, runtime.FileOutside, answer.result.Reason, "%s %s", within, op)
			require.Empty(t, answer.content)
		}
	}
	text, err := os.ReadFile(root + "/outside/dir/file")
	require.NoError(t, err)
	require.Equal(t, outsideText, string(text))
}

// Links in the allowed directory that stay there are followed, and of several
// directories any will do.
func TestAllowedPaths(t *testing.T) {
	root, at := newEscapeTree(t, "dir/../dir")
	r := at("/work/link/file")
	require.Equal(t, "inside", workOnFile(t, shim.FileRead, r).content)
	r.Within = [][]byte{[]byte("/none"), []byte("/outside"), []byte("/work/")}
	require.Equal(t, "inside", workOnFile(t, shim.FileRead, r).content)
	require.Empty(t, workOnFile(t, shim.FileWrite, at("/work/link/new/file"), "x").result)
	require.FileExists(t, root+"/work/dir/new/file")
	require.Empty(t, workOnFile(t, shim.FileWrite, at("/work/link"), "x").result, "a name that is a link is replaced")
	require.FileExists(t, root+"/work/link")
	top := workOnFile(t, shim.FileRemove, at("/work"))
	require.Equal(t, runtime.FileInvalid, top.result.Reason)
	require.NotEmpty(t, workOnFile(t, shim.FileList, at("/work")).entries)
}

// A directory that is exchanged with a link again and again leads nowhere either.
func TestExchangedLinks(t *testing.T) {
	root, at := newEscapeTree(t, "")
	require.NoError(t, os.Symlink("../outside", root+"/work/out"))
	var stop atomic.Bool
	exchanged := make(chan int)
	go func() { // ends with stop
		n := 0
		for ; !stop.Load(); n++ {
			_ = unix.Renameat2(unix.AT_FDCWD, root+"/work/dir", unix.AT_FDCWD, root+"/work/out", unix.RENAME_EXCHANGE)
		}
		exchanged <- n
	}()
	archive, reasons := packedFile(t, "below/new"), map[runtime.FileReason]int{}
	for range 300 {
		for _, op := range []shim.FileOp{shim.FileStat, shim.FileRead, shim.FileList, shim.FileTar} {
			answer := workOnFile(t, op, at("/work/dir/file"))
			require.NotContains(t, answer.content, outsideText, "%s", op)
		}
		workOnFile(t, shim.FileWrite, at("/work/dir/new"), "new")
		workOnFile(t, shim.FileUntar, at("/work/dir"), archive)
		workOnFile(t, shim.FileRemove, at("/work/dir/below"))
		listed := workOnFile(t, shim.FileTar, at("/work/dir"))
		require.NotContains(t, listed.content, outsideText)
		workOnFile(t, shim.FileRemove, at("/work/dir/file"))
		writeIfDir(root + "/work/dir")
		writeIfDir(root + "/work/out")
		reasons[workOnFile(t, shim.FileRead, at("/work/dir/file")).result.Reason]++
	}
	stop.Store(true)
	require.NotZero(t, reasons[""], "the directory was read")
	require.NotZero(t, reasons[runtime.FileOutside], "the link was found")
	require.Greater(t, <-exchanged, 300)
	checkOutside(t, root, "after all")
}

// writeIfDir restores what a removal has removed, if the name is a directory.
func writeIfDir(dir string) {
	fd, err := openAt(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = os.WriteFile(fdPath(fd)+"/file", []byte("inside"), 0o644)
}
