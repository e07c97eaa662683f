package backend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/runtimetest"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// localCommands run commands as processes of this machine.
type localCommands struct {
	// lose makes the connection of one command be lost after that many bytes of
	// output, or of input. Negative means never.
	loseOutput, loseInput atomic.Int64
	opened                atomic.Int64
	unacknowledged        atomic.Int64 // the most at once
	begun                 func(pid int)
	script                string // run in place of the program

	mu      sync.Mutex // guards streams
	streams map[string]*localStream
}

// localStream is an attachment to a process.
type localStream struct {
	commands     *localCommands
	process      *exec.Cmd
	stdin        *os.File
	stdout       *os.File
	ended        chan struct{}
	received     int64
	acknowledged int64
	sent         int64
	closed       atomic.Bool
	buffer       [shim.MaxData]byte
}

func (l *localCommands) OpenCommand(_ context.Context, _ string, cmd runtime.TenantCommand) (runtime.CommandStream, error) {
	l.opened.Add(1)
	if !cmd.Internal || cmd.Workdir != "/" {
		return nil, errors.New("not an internal command")
	}
	args := cmd.Args
	if l.script != "" {
		args = []string{"/bin/sh", "-c", l.script}
	}
	s := &localStream{commands: l, process: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	inRead, inWrite, err1 := os.Pipe()
	outRead, outWrite, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s.process.Stdin, s.process.Stdout, s.process.Stderr = inRead, outWrite, io.Discard
	s.stdin, s.stdout = inWrite, outRead
	if !cmd.Input {
		s.stdin.Close()
	}
	err := s.process.Start()
	inRead.Close()
	outWrite.Close()
	if err != nil {
		return nil, err
	}
	go func() { // ends with the process
		_ = s.process.Wait()
		close(s.ended)
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams[cmd.ID] = s
	if l.begun != nil {
		l.begun(s.process.Process.Pid)
	}
	return s, nil
}

func (l *localCommands) EndCommand(_ context.Context, _, commandID string, _ int64) error {
	l.mu.Lock()
	s := l.streams[commandID]
	l.mu.Unlock()
	_ = s.process.Process.Signal(unix.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(200 * time.Millisecond):
		_ = s.process.Process.Kill()
		<-s.ended
	}
	return nil
}

// running returns how many processes run.
func (l *localCommands) running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, s := range l.streams {
		select {
		case <-s.ended:
		default:
			n++
		}
	}
	return n
}

func (s *localStream) Start() runtime.CommandStart { return runtime.CommandStart{Created: true} }

var errLost = fmt.Errorf("%w: connection lost", runtime.ErrUnavailable)

func (s *localStream) Next() (runtime.CommandOutput, error) {
	if limit := s.commands.loseOutput.Load(); limit >= 0 && s.received >= limit {
		s.commands.loseOutput.Store(-1)
		return runtime.CommandOutput{}, errLost
	}
	n, err := s.stdout.Read(s.buffer[:])
	if errors.Is(err, io.EOF) {
		<-s.ended
		return runtime.CommandOutput{}, io.EOF
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errLost
	}
	if err != nil {
		return runtime.CommandOutput{}, err
	}
	out := runtime.CommandOutput{Offset: s.received, Data: s.buffer[:n]}
	s.received += int64(n)
	s.commands.unacknowledged.Store(max(s.commands.unacknowledged.Load(), s.received-s.acknowledged))
	return out, nil
}

func (s *localStream) Acknowledge(offset int64) error {
	s.acknowledged = offset
	return nil
}

func (s *localStream) Input(offset int64, p []byte) error {
	if offset != s.sent {
		return errors.New("not where it continues")
	}
	s.sent += int64(len(p))
	if limit := s.commands.loseInput.Load(); limit >= 0 && s.sent >= limit {
		s.commands.loseOutput.Store(0)
		_ = s.stdout.SetReadDeadline(time.Now())
		return errLost
	}
	_, err := s.stdin.Write(p)
	if errors.Is(err, unix.EPIPE) {
		return nil // it is discarded
	}
	return err
}

func (s *localStream) CloseInput() error                 { return s.stdin.Close() }
func (s *localStream) Resize(runtime.TerminalSize) error { return nil }
func (s *localStream) Signal(string) error               { return nil }
func (s *localStream) Result() (runtime.Result, error)   { return runtime.Result{}, nil }

func (s *localStream) Close() error {
	if !s.closed.Swap(true) {
		s.stdin.Close()
		s.stdout.Close()
	}
	return nil
}

// localFiles returns containers whose files are those of a directory, and where the
// program is a process of this machine.
func localFiles(t *testing.T) (*localCommands, Containers, string) {
	t.Helper()
	dir, root := t.TempDir(), t.TempDir()
	program := filepath.Join(dir, shim.AskBinaryName)
	require.NoError(t, os.Symlink(runtimetest.BuildShim(t), program))
	l := &localCommands{streams: map[string]*localStream{}}
	l.loseOutput.Store(-1)
	l.loseInput.Store(-1)
	t.Cleanup(func() { require.Zero(t, l.running(), "every program has ended") })
	return l, Containers{
		programs: l, options: Options{FileProgram: func(string) (string, string) { return program, root }},
		fileSilence: 10 * time.Second,
	}, root
}

func at(path string) runtime.FileRef { return runtime.FileRef{Path: path, Fence: 1} }

// pattern is an endless content, and counts what was read of it.
type pattern struct {
	left int64
	sum  hash.Hash
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	for i := range b[:n] {
		b[i] = byte(p.left - int64(i))
	}
	p.left -= int64(n)
	p.sum.Write(b[:n])
	return n, nil
}

// A large file comes back as it was sent, and neither direction holds more than a
// piece of it.
func TestTenantFileRoundTrip(t *testing.T) {
	t.Parallel()
	l, c, _ := localFiles(t)
	const size = 64<<20 + 17
	sent := &pattern{left: size, sum: sha256.New()}
	wrote, err := c.WriteFile(t.Context(), "c", at("/a/big"), 0o640, sent)
	require.NoError(t, err)
	info, content, err := c.ReadFile(t.Context(), "c", at("/a/big"), 0, -1)
	require.NoError(t, err)
	require.Equal(t, wrote, info)
	require.Equal(t, int64(size), info.Size)
	require.Equal(t, "big", info.Name)
	got := sha256.New()
	n, err := io.Copy(got, content)
	require.NoError(t, err)
	require.Equal(t, int64(size), n)
	require.Equal(t, sent.sum.Sum(nil), got.Sum(nil))
	require.NoError(t, content.Close())
	require.LessOrEqual(t, l.unacknowledged.Load(), int64(2*shim.MaxData))

	_, content, err = c.ReadFile(t.Context(), "c", at("/a/big"), size-3, 100)
	require.NoError(t, err)
	text, err := io.ReadAll(content)
	require.NoError(t, err)
	require.Len(t, text, 3)
	stat, err := c.StatFile(t.Context(), "c", at("/a/big"))
	require.NoError(t, err)
	require.Equal(t, info, stat)
}

// A reader that is closed early, or whose call is canceled, leaves no program.
func TestTenantFileClosedEarly(t *testing.T) {
	t.Parallel()
	l, c, root := localFiles(t)
	require.NoError(t, os.WriteFile(root+"/file", make([]byte, 8<<20), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	_, content, err := c.ReadFile(ctx, "c", at("/file"), 0, -1)
	require.NoError(t, err)
	_, err = content.Read(make([]byte, 10))
	require.NoError(t, err)
	require.Equal(t, 1, l.running())
	cancel()
	_, err = io.Copy(io.Discard, content)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, content.Close())
	require.Zero(t, l.running())

	archive, err := c.ReadTree(t.Context(), "c", at("/"))
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.Zero(t, l.running())
	_, err = archive.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
}

// The errors of the program are those of the contract, with the path.
func TestTenantFileErrors(t *testing.T) {
	t.Parallel()
	l, c, root := localFiles(t)
	require.NoError(t, os.Mkdir(root+"/dir", 0o755))
	require.NoError(t, os.WriteFile(root+"/dir/file", []byte("text"), 0o644))
	ctx := t.Context()
	_, err := c.StatFile(ctx, "c", at("/none"))
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
	_, _, err = c.ReadFile(ctx, "c", at("/dir"), 0, -1)
	requireReason(t, runtime.FileNotRegular, err)
	_, _, err = c.ReadFile(ctx, "c", at("/dir/file"), 5, -1)
	requireReason(t, runtime.FileInvalid, err)
	requireReason(t, runtime.FileNotEmpty, c.RemoveFile(ctx, "c", at("/dir"), false))
	_, err = c.ListFiles(ctx, "c", at("/dir/file"), "", 0)
	requireReason(t, runtime.FileNotDir, err)
	_, err = c.ReadTree(ctx, "c", at("/none"))
	requireReason(t, runtime.FileNotFound, err)
	_, err = c.WriteFile(ctx, "c", at("/dir"), 0o644, strings.NewReader(strings.Repeat("x", 1<<20)))
	requireReason(t, runtime.FileNotRegular, err)
	require.ErrorIs(t, c.WriteTree(ctx, "c", at("/new"), strings.NewReader("not an archive")), runtime.ErrBadArchive)
	outside := at("/dir/file")
	outside.Within = []string{"/other", "/di"}
	_, err = c.StatFile(ctx, "c", outside)
	requireReason(t, runtime.FileOutside, err)

	before := l.opened.Load()
	for _, path := range []string{"", "relative", "/nul\x00", "/" + strings.Repeat("x", 4096)} {
		_, err = c.StatFile(ctx, "c", at(path))
		requireReason(t, runtime.FileInvalid, err)
		outside.Within = []string{path}
		_, err = c.StatFile(ctx, "c", outside)
		requireReason(t, runtime.FileInvalid, err)
	}
	outside.Within = make([]string, maxWithin+1)
	_, err = c.StatFile(ctx, "c", outside)
	requireReason(t, runtime.FileInvalid, err)
	require.Equal(t, before, l.opened.Load(), "nothing was started")
}

func requireReason(t *testing.T, want runtime.FileReason, err error) {
	t.Helper()
	var failure *runtime.FileError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, want, failure.Reason, "%v", err)
}

// What changes nothing is tried a second time when the connection is lost. A body
// that was consumed is not.
func TestTenantFileLostConnection(t *testing.T) {
	t.Parallel()
	l, c, root := localFiles(t)
	require.NoError(t, os.WriteFile(root+"/file", make([]byte, 4<<20), 0o644))
	l.loseOutput.Store(0)
	_, err := c.StatFile(t.Context(), "c", at("/file"))
	require.NoError(t, err)
	require.Equal(t, int64(2), l.opened.Load())

	l.loseOutput.Store(1 << 20)
	_, content, err := c.ReadFile(t.Context(), "c", at("/file"), 0, -1)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, content)
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	require.NoError(t, content.Close())

	opened := l.opened.Load()
	l.loseInput.Store(1 << 20)
	_, err = c.WriteFile(t.Context(), "c", at("/file"), 0o644, io.LimitReader(zeros{}, 2<<20))
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	require.Equal(t, opened+1, l.opened.Load())
	requireOldFile(t, root, 4<<20)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// requireOldFile checks that an upload has replaced nothing and left nothing.
func requireOldFile(t *testing.T, root string, size int64) {
	t.Helper()
	info, err := os.Stat(root + "/file")
	require.NoError(t, err)
	require.Equal(t, size, info.Size())
	names, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// A body that ends with an error, or whose call is canceled, keeps the old file.
func TestTenantFileBrokenBody(t *testing.T) {
	t.Parallel()
	_, c, root := localFiles(t)
	require.NoError(t, os.WriteFile(root+"/file", []byte("old"), 0o644))
	broken := errors.New("the client is gone")
	body := io.MultiReader(strings.NewReader("new"), errorReader{broken})
	_, err := c.WriteFile(t.Context(), "c", at("/file"), 0o644, body)
	require.ErrorIs(t, err, broken)
	requireOldFile(t, root, 3)

	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	result := make(chan error)
	go func() { // ends with the context
		_, err := c.WriteFile(ctx, "c", at("/file"), 0o644, reader)
		result <- err
	}()
	_, err = writer.Write([]byte("new"))
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
	writer.Close()
	requireOldFile(t, root, 3)
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// A program that is stopped ends the call in a bounded time, and a slow client is
// not taken for one.
func TestTenantFileStoppedProgram(t *testing.T) {
	t.Parallel()
	l, c, root := localFiles(t)
	require.NoError(t, os.WriteFile(root+"/file", make([]byte, 4<<20), 0o644))
	c.fileSilence = 300 * time.Millisecond

	_, content, err := c.ReadFile(t.Context(), "c", at("/file"), 0, -1)
	require.NoError(t, err)
	reader, writer := io.Pipe()
	wrote := make(chan error)
	go func() { // ends with the writer
		_, err := c.WriteFile(t.Context(), "c", at("/other"), 0o644, reader)
		wrote <- err
	}()
	_, err = writer.Write([]byte("slow"))
	require.NoError(t, err)
	<-time.After(3 * c.fileSilence)
	_, err = io.Copy(io.Discard, content)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.NoError(t, <-wrote)

	l.begun = func(pid int) { _ = unix.Kill(pid, unix.SIGSTOP) }
	_, err = c.StatFile(t.Context(), "c", at("/file"))
	requireReason(t, runtime.FileOtherReason, err)
	_, _, err = c.ReadFile(t.Context(), "c", at("/file"), 0, -1)
	requireReason(t, runtime.FileOtherReason, err)
	_, err = c.WriteFile(t.Context(), "c", at("/file"), 0o644, io.LimitReader(zeros{}, 1<<20))
	requireReason(t, runtime.FileOtherReason, err)
}

// frame is a frame as a shell prints it.
func frame(kind byte, payload string) string {
	var b bytes.Buffer
	_ = shim.NewFileWriter(&b).Frame(shim.FileFrame(kind), []byte(payload))
	text := ""
	for _, c := range b.Bytes() {
		text += fmt.Sprintf(`\%03o`, c)
	}
	return "printf '" + text + "';"
}

// What a tenant makes the program print is refused, and bounded.
func TestForgedFileOutput(t *testing.T) {
	t.Parallel()
	l, c, _ := localFiles(t)
	entry := func(change string) string {
		return frame('I', `{"name":"YQ==","type":"file","size":4,"mode":420,"modified":1,"uid":0,"gid":0`+change+`}`)
	}
	end := frame('E', `{}`)
	l.script = entry("") + end
	found, err := c.ListFiles(t.Context(), "c", at("/"), "", 0)
	require.NoError(t, err)
	require.Equal(t, "a", found[0].Name)
	for name, script := range map[string]string{
		"nothing": "exit 0", "text": "echo hello", "an endless frame": `printf 'D\377\377\377\377'; cat /dev/zero`,
		"endless output": "cat /dev/zero", "an unknown frame": frame('X', ""), "half a frame": `printf 'I\0\0\0\020'`,
		"no JSON": frame('I', "x") + end, "content": frame('D', "text") + end,
		"a slash":         entry(`,"name":"YS9i"`) + end,
		"dot dot":         entry(`,"name":"Li4="`) + end,
		"no name":         entry(`,"name":""`) + end,
		"NUL":             entry(`,"name":"AGE="`) + end,
		"a long name":     entry(`,"name":"`+strings.Repeat("YWFh", 100)+`"`) + end,
		"a negative size": entry(`,"size":-1`) + end,
		"a type":          entry(`,"type":"door"`) + end,
		"a target":        entry(`,"target":"YQ=="`) + end,
		"a user":          entry(`,"uid":-1`) + end,
		"not in order":    entry("") + entry("") + end,
		"a reason":        frame('E', `{"reason":"door"}`),
		"a huge frame":    frame('I', strings.Repeat(" ", 9000)) + end,
		"too many":        strings.Repeat(entry(""), 3) + end,
	} {
		l.script = script
		_, err := c.ListFiles(t.Context(), "c", at("/"), "", 2)
		requireReason(t, runtime.FileOtherReason, err)
		require.NotContains(t, err.Error(), "door", name)
	}
	l.script = frame('E', `{"reason":"failed","detail":"a\u001b[31m\n`+strings.Repeat("x", 5000)+`"}`)
	_, err = c.StatFile(t.Context(), "c", at("/"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\x1b")
	require.Less(t, len(err.Error()), 1000)
	l.script = entry(`,"modified":9223372036854775807`) + end
	info, err := c.StatFile(t.Context(), "c", at("/"))
	require.NoError(t, err)
	_, err = info.Modified.MarshalJSON()
	require.NoError(t, err)
}

// Content that is not what was announced is an error, not an end.
func TestForgedContent(t *testing.T) {
	t.Parallel()
	l, c, _ := localFiles(t)
	entry := frame('I', `{"name":"YQ==","type":"file","size":4,"mode":420,"modified":1,"uid":0,"gid":0}`)
	for name, script := range map[string]string{
		"too short": entry + frame('D', "abc") + frame('E', "{}"), "too long": entry + frame('D', "abcde") + frame('E', "{}"),
		"no end": entry + frame('D', "abcd"), "another file": entry + frame('D', "ab") + entry,
	} {
		l.script = script
		_, content, err := c.ReadFile(t.Context(), "c", at("/a"), 0, -1)
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		requireReason(t, runtime.FileOtherReason, err)
		require.LessOrEqual(t, len(text), 4, name)
		require.NoError(t, content.Close())
	}
	l.script = entry + frame('E', "{}")
	_, err := c.WriteFile(t.Context(), "c", at("/a"), 0o644, strings.NewReader("text"))
	require.NoError(t, errOrForged(err))
}

// errOrForged returns nil for an error that a forged success may have.
func errOrForged(err error) error {
	if failure, ok := errors.AsType[*runtime.FileError](err); ok && failure.Detail == errForged.Detail {
		return nil
	}
	return err
}
