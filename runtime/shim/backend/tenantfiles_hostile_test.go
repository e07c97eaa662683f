package backend

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
)

// A program that is stopped ends the call in a bounded time, and a slow client is
// not taken for one.
func TestTenantFileStoppedProgram(t *testing.T) {
	t.Parallel()
	l, c, root := localFiles(t)
	require.NoError(t, os.WriteFile(root+"/file", make([]byte, 4<<20), 0o644))
	c.fileSilence = 5 * time.Second // of a program that a busy machine may stall

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
	<-time.After(c.fileSilence + time.Second)
	_, err = io.Copy(io.Discard, content)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.NoError(t, <-wrote)

	c.fileSilence, l.grace = 300*time.Millisecond, 200*time.Millisecond
	l.script = "kill -STOP $$"
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
