package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fileAnswer is what an operation prints.
type fileAnswer struct {
	entries []shim.FileEntry
	content string
	result  shim.FileResult
	code    int
}

// workOnFile performs an operation in this process.
func workOnFile(t *testing.T, op shim.FileOp, r shim.FileRequest, input ...string) fileAnswer {
	t.Helper()
	var out bytes.Buffer
	code := runFile([]string{string(op), encodeFileRequest(t, r)}, fileInput(t, input...), &out)
	return parseFileAnswer(t, &out, code)
}

// asUser performs an operation in a process of another user.
func asUser(t *testing.T, uid uint32, op shim.FileOp, r shim.FileRequest, input ...string) fileAnswer {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", shim.FileCommand, string(op), encodeFileRequest(t, r))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Dir, cmd.Stdin, cmd.Stderr = "/", fileInput(t, input...), os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil {
		require.True(t, errors.As(err, &exit), "%v", err)
	}
	return parseFileAnswer(t, &out, cmd.ProcessState.ExitCode())
}

func encodeFileRequest(t *testing.T, r shim.FileRequest) string {
	t.Helper()
	if r.Length == 0 {
		r.Length = -1
	}
	encoded, err := json.Marshal(r)
	require.NoError(t, err)
	return string(encoded)
}

// fileInput returns frames with the parts, and their end.
func fileInput(t *testing.T, parts ...string) io.Reader {
	t.Helper()
	var in bytes.Buffer
	w := shim.NewFileWriter(&in)
	for _, part := range parts {
		_, err := io.WriteString(w, part)
		require.NoError(t, err)
	}
	require.NoError(t, w.Frame(shim.FileEnd, nil))
	return &in
}

func parseFileAnswer(t *testing.T, out io.Reader, code int) fileAnswer {
	t.Helper()
	answer := fileAnswer{code: code}
	frames := shim.NewFileReader(out)
	for {
		kind, err := frames.Next()
		require.NoError(t, err)
		switch kind {
		case shim.FileInfo:
			var entry shim.FileEntry
			require.NoError(t, frames.JSON(&entry))
			answer.entries = append(answer.entries, entry)
		case shim.FileData:
			data, err := io.ReadAll(frames)
			require.NoError(t, err)
			answer.content += string(data)
		case shim.FileEnd:
			require.NoError(t, frames.JSON(&answer.result))
			require.Equal(t, answer.result.Reason == "", code == 0, "%+v", answer.result)
			return answer
		}
	}
}

// fileRoot returns a request for a path below a new directory.
func fileRoot(t *testing.T) (string, func(path string) shim.FileRequest) {
	t.Helper()
	root, err := os.MkdirTemp("", "files-") // others may search it, unlike t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	require.NoError(t, os.Chmod(root, 0o777))
	return root, func(path string) shim.FileRequest { return shim.FileRequest{Root: root, Path: []byte(path)} }
}

func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// A file that was written is read again, as a whole and in ranges, with its mode.
func TestFileRoundTrip(t *testing.T) {
	root, at := fileRoot(t)
	r := at("/a/b/file")
	r.Mode = 0o4640
	text := strings.Repeat("0123456789", 20_000)
	wrote := workOnFile(t, shim.FileWrite, r, text[:7], text[7:])
	require.Empty(t, wrote.result)
	require.Equal(t, int64(len(text)), wrote.entries[0].Size)
	info, err := os.Stat(root + "/a/b/file")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode(), "neither setuid nor the umask")
	require.Equal(t, []string{"file"}, namesIn(t, root+"/a/b"))

	read := workOnFile(t, shim.FileRead, at("/a/b/file"))
	require.True(t, read.content == text)
	require.Equal(t, "file", string(read.entries[0].Name))
	for _, k := range []struct {
		offset, length int64
		want           string
	}{
		{0, 3, "012"}, {5, 2, "56"}, {199_999, 5, "9"}, {199_998, -1, "89"}, {200_000, -1, ""}, {200_000, 1, ""},
	} {
		r := at("/a/b/file")
		r.Offset, r.Length = k.offset, k.length
		require.Equal(t, k.want, workOnFile(t, shim.FileRead, r).content, "%+v", k)
	}
	for _, offset := range []int64{200_001, -1} {
		r.Offset, r.Length = offset, 1
		result := workOnFile(t, shim.FileRead, r).result
		require.Equal(t, runtime.FileInvalid, result.Reason)
		require.Contains(t, result.Detail, "200000", "the size")
	}
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// The old content stays until all of the new one has arrived, and nothing else.
func TestBrokenUpload(t *testing.T) {
	root, at := fileRoot(t)
	writeTestFile(t, root+"/file", "old")
	for name, cut := range map[string]int{"in a header": 2, "in a frame": 8, "before the end": 12, "in the end": 14} {
		var in, out bytes.Buffer
		w := shim.NewFileWriter(&in)
		_, err := w.Write([]byte("new text"))
		require.NoError(t, err)
		require.NoError(t, w.Frame(shim.FileEnd, nil))
		in.Truncate(cut)
		code := runFile([]string{"write", encodeFileRequest(t, at("/file"))}, &in, &out)
		require.Equal(t, runtime.FileOtherReason, parseFileAnswer(t, &out, code).result.Reason, name)
		text, err := os.ReadFile(root + "/file")
		require.NoError(t, err)
		require.Equal(t, "old", string(text), name)
		require.Equal(t, []string{"file"}, namesIn(t, root), name)
	}
}

// A process that the server ends removes what is incomplete.
func TestEndedUpload(t *testing.T) {
	root, at := fileRoot(t)
	cmd := exec.Command("/proc/self/exe", shim.FileCommand, "write", encodeFileRequest(t, at("/file")))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = shim.NewFileWriter(in).Write([]byte("text"))
	require.NoError(t, err)
	testenv.AwaitTrue(t, "the incomplete upload", func() bool {
		names := namesIn(t, root)
		return len(names) == 1 && strings.HasPrefix(names[0], uploadPrefix)
	})
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Empty(t, namesIn(t, root))
}

// Everything but a regular file is refused, and nothing blocks.
func TestReadOfOtherFiles(t *testing.T) {
	root, at := fileRoot(t)
	require.NoError(t, unix.Mkfifo(root+"/pipe", 0o666))
	require.NoError(t, unix.Mknod(root+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	require.NoError(t, unix.Mknod(root+"/socket", unix.S_IFSOCK|0o666, 0))
	require.NoError(t, os.Mkdir(root+"/dir", 0o755))
	require.NoError(t, os.Symlink(root+"/pipe", root+"/link"))
	require.NoError(t, os.Symlink("loop", root+"/loop"))
	writeTestFile(t, root+"/file", "text")
	for name, want := range map[string]runtime.FileReason{
		"pipe": runtime.FileNotRegular, "null": runtime.FileNotRegular, "socket": runtime.FileNotRegular,
		"dir": runtime.FileNotRegular, "link": runtime.FileNotRegular, "loop": runtime.FileInvalid,
		"none": runtime.FileNotFound, "none/x": runtime.FileNotFound, "file/x": runtime.FileNotDir,
		strings.Repeat("n", 256): runtime.FileInvalid,
	} {
		for _, within := range [][][]byte{nil, {[]byte("/")}} {
			r := at("/" + name)
			r.Within = within
			if within != nil && name == "link" {
				want = runtime.FileOutside // it is absolute
			}
			require.Equal(t, want, workOnFile(t, shim.FileRead, r).result.Reason, "%s %s", name, within)
			if want == runtime.FileNotRegular && name != "dir" && name != "link" {
				require.Equal(t, want, workOnFile(t, shim.FileTar, r).result.Reason, "%s %s", name, within)
			}
		}
	}
	dir := workOnFile(t, shim.FileWrite, at("/dir"), "x")
	require.Equal(t, runtime.FileNotRegular, dir.result.Reason)
	require.Equal(t, runtime.FileNotDir, workOnFile(t, shim.FileList, at("/file")).result.Reason)
}

// Files that the kernel computes when they are read have their real size.
func TestReadOfComputedFiles(t *testing.T) {
	for _, path := range []string{"/proc/self/status", "/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		if _, err := os.Stat(path); err != nil {
			continue // the kernel has none
		}
		read := workOnFile(t, shim.FileRead, shim.FileRequest{Path: []byte(path)})
		require.Empty(t, read.result, path)
		require.NotEmpty(t, read.content, path)
		require.Equal(t, int64(len(read.content)), read.entries[0].Size, path)
	}
}

// A file that becomes shorter while it is read is an error, not an end.
func TestReadOfFileThatShrinks(t *testing.T) {
	root, at := fileRoot(t)
	writeTestFile(t, root+"/file", strings.Repeat("x", 4*shim.MaxData))
	reader, writer := io.Pipe()
	done := make(chan int)
	request := encodeFileRequest(t, at("/file"))
	go func() { done <- runFile([]string{"read", request}, strings.NewReader(""), writer) }() // ends with the file
	frames := shim.NewFileReader(reader)
	_, err := frames.Next()
	require.NoError(t, err)
	require.NoError(t, os.Truncate(root+"/file", 10))
	var result shim.FileResult
	for kind := shim.FileData; kind != shim.FileEnd; {
		kind, err = frames.Next()
		require.NoError(t, err)
	}
	require.NoError(t, frames.JSON(&result))
	require.Equal(t, runtime.FileChanged, result.Reason)
	require.Equal(t, exitFailed, <-done)
}

// Pages of a list are in the order of the names' bytes, and have each name once.
func TestListPages(t *testing.T) {
	root, at := fileRoot(t)
	want := []string{}
	for i := range 57 {
		want = append(want, fmt.Sprintf("f%02d", i))
	}
	want = append(want, "z\nnewline", "z\xff", "ä")
	for _, name := range want {
		writeTestFile(t, root+"/dir/"+name, "x")
	}
	require.NoError(t, os.Symlink("/etc/passwd", root+"/dir/zz"))
	want = append(want[:58], "zz", "z\xff", "ä")
	for _, limit := range []int{1, 7, 60, 61, 1000} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			r := at("/dir")
			r.After, r.Limit = []byte(after), limit
			page := workOnFile(t, shim.FileList, r)
			require.Empty(t, page.result)
			for _, e := range page.entries {
				got = append(got, string(e.Name))
				require.Equal(t, e.Type == runtime.TypeLink, string(e.Target) == "/etc/passwd")
			}
			if len(page.entries) < limit {
				break
			}
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
}

// The rights are those of the user.
func TestFileRightsOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root can start a process of another user")
	}
	root, at := fileRoot(t)
	writeTestFile(t, root+"/root/secret", "secret")
	require.NoError(t, os.Chmod(root+"/root/secret", 0o600))
	require.NoError(t, os.Symlink(root+"/root/secret", root+"/link"))
	require.NoError(t, os.Mkdir(root+"/sticky", 0o755))
	require.NoError(t, os.Chmod(root+"/sticky", 0o777|os.ModeSticky))
	writeTestFile(t, root+"/sticky/file", "root's")
	for name, op := range map[string]shim.FileOp{
		"/root/secret": shim.FileRead, "/link": shim.FileRead, "/root/new": shim.FileWrite, "/root/dir/new": shim.FileWrite,
		"/sticky/file": shim.FileWrite, "/root": shim.FileTar, "/root/x": shim.FileUntar, "/root/secret/": shim.FileRemove,
	} {
		require.Equal(t, runtime.FileDenied, asUser(t, 4321, op, at(name), "text").result.Reason, "%s %s", op, name)
	}
	packed := asUser(t, 4321, shim.FileTar, at("/root"))
	require.Contains(t, packed.result.Detail, "secret", "what cannot be read is named")
	require.Empty(t, asUser(t, 4321, shim.FileWrite, at("/sticky/own/file"), "text").result)
	info, err := os.Stat(root + "/sticky/own/file")
	require.NoError(t, err)
	require.Equal(t, uint32(4321), info.Sys().(*syscall.Stat_t).Uid)
	require.Equal(t, []string{"file", "own"}, namesIn(t, root+"/sticky"), "nothing is left of what was denied")
}

// A removal follows no link and empties no volume.
func TestRemove(t *testing.T) {
	root, at := fileRoot(t)
	writeTestFile(t, root+"/outside/file", "x")
	for i := range 3 {
		writeTestFile(t, fmt.Sprintf("%s/dir/a/b/c%d", root, i), "x")
	}
	require.NoError(t, os.Symlink(root+"/outside", root+"/dir/a/link"))
	require.Equal(t, runtime.FileNotEmpty, workOnFile(t, shim.FileRemove, at("/dir")).result.Reason)
	r := at("/dir")
	r.Recursive = true
	require.Empty(t, workOnFile(t, shim.FileRemove, r).result)
	require.Equal(t, []string{"outside"}, namesIn(t, root))
	require.FileExists(t, root+"/outside/file")
	require.Equal(t, runtime.FileNotFound, workOnFile(t, shim.FileRemove, r).result.Reason)
	for _, top := range []string{"/", "/.", "/dir/..", "//"} {
		r.Path = []byte(top)
		require.Equal(t, runtime.FileInvalid, workOnFile(t, shim.FileRemove, r).result.Reason, top)
	}
	mounted := shim.FileRequest{Path: []byte("/proc")}
	require.Equal(t, runtime.FileInvalid, workOnFile(t, shim.FileRemove, mounted).result.Reason, "a mount point")
}

// What was packed is unpacked again, a single file too.
func TestFileTree(t *testing.T) {
	root, at := fileRoot(t)
	writeTestFile(t, root+"/from/a/file", "text")
	require.NoError(t, os.Symlink("/etc/passwd", root+"/from/a/link"))
	require.NoError(t, unix.Mkfifo(root+"/from/pipe", 0o600))
	archive := workOnFile(t, shim.FileTar, at("/from"))
	require.Empty(t, archive.result)
	require.Empty(t, workOnFile(t, shim.FileUntar, at("/to/new"), archive.content).result)
	text, err := os.ReadFile(root + "/to/new/a/file")
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	target, err := os.Readlink(root + "/to/new/a/link")
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", target)
	require.Equal(t, []string{"a"}, namesIn(t, root+"/to/new"))

	archive = workOnFile(t, shim.FileTar, at("/from/a/file"))
	require.Empty(t, workOnFile(t, shim.FileUntar, at("/single"), archive.content).result)
	require.Equal(t, []string{"file"}, namesIn(t, root+"/single"))
	require.Equal(t, shim.FileBadArchive, workOnFile(t, shim.FileUntar, at("/single"), "not an archive").result.Reason)
	require.Equal(t, runtime.FileNotFound, workOnFile(t, shim.FileTar, at("/none")).result.Reason)
}

// The kernel's errors have the reasons of the contract, also where several layers
// have wrapped them.
func TestFileResult(t *testing.T) {
	for errno, want := range map[unix.Errno]runtime.FileReason{
		unix.ENOENT: runtime.FileNotFound, unix.EACCES: runtime.FileDenied, unix.EPERM: runtime.FileDenied,
		unix.EROFS: runtime.FileReadOnly, unix.ENOSPC: runtime.FileNoSpace, unix.EDQUOT: runtime.FileNoSpace,
		unix.ENOTDIR: runtime.FileNotDir, unix.EISDIR: runtime.FileNotRegular, unix.ENOTEMPTY: runtime.FileNotEmpty,
		unix.ENAMETOOLONG: runtime.FileInvalid, unix.ELOOP: runtime.FileInvalid, unix.EIO: runtime.FileOtherReason,
	} {
		result := fileResult(fmt.Errorf("x: %w", &os.PathError{Op: "open", Path: "/root/of/it", Err: errno}))
		require.Equal(t, shim.FileResult{Reason: want, Detail: errno.Error()}, result, "without the path on this machine")
	}
	long := fileResult(errors.New(strings.Repeat("\xff", 2000)))
	require.LessOrEqual(t, len(long.Detail), 2*maxFileDetail)
	require.Equal(t, shim.FileBadArchive, fileResult(badArchive("x")).Reason)
}
