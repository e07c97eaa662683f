package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// newImage returns an image without hooks, for a user who owns nothing in it.
func newImage(t *testing.T) imageFiles {
	t.Helper()
	f := imageFiles{filepath.Join(t.TempDir(), "root"), os.Geteuid() + 1}
	require.NoError(t, os.MkdirAll(filepath.Join(f.root, runtime.ImageHooksDir), 0o755))
	return f
}

// add adds a file below the directory of the hooks, and its directory.
func (f imageFiles) add(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(f.root, runtime.ImageHooksDir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o755))
	require.NoError(t, os.Chmod(file, 0o755))
	return file
}

// paths returns the hooks of a listing below the directory of the hooks.
func paths(found runtime.ImageHooks) []string {
	all := []string{}
	for _, h := range found.Hooks {
		all = append(all, strings.TrimPrefix(h.Path, runtime.ImageHooksDir+"/"))
	}
	return all
}

// The file of a point is first, and then those of its directory in order of their
// names. The order of the points is the caller's.
func TestListImageHooks(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	for _, name := range []string{"post_claim.d/20-b", "post_claim.d/10-a", "post_claim.d/9", "post_claim", "post_start"} {
		f.add(t, name, "#!/bin/sh\n")
	}
	found := f.list([]string{"post_start", "post_claim", "pre_destroy"})
	require.Equal(t, []string{"post_start", "post_claim", "post_claim.d/10-a", "post_claim.d/20-b", "post_claim.d/9"}, paths(found))
	require.Empty(t, found.Refused)
	sum := sha256.Sum256([]byte("#!/bin/sh\n"))
	require.Equal(t, hex.EncodeToString(sum[:]), found.Hooks[0].Digest)
}

// An image without the directory has no hooks.
func TestListImageHooksOfOtherImages(t *testing.T) {
	t.Parallel()
	f := imageFiles{t.TempDir(), 1}
	require.Equal(t, runtime.ImageHooks{Hooks: []runtime.ImageHook{}, Refused: []string{}}, f.list([]string{"post_start"}))
	text, err := json.Marshal(f.list(nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"hooks":[],"refused":[]}`, string(text))
}

// Links, and what the user can change, are refused wherever they are on the path.
func TestRefusedImageHooks(t *testing.T) {
	t.Parallel()
	move := func(t *testing.T, file string) {
		target := filepath.Join(t.TempDir(), "moved")
		require.NoError(t, os.Rename(file, target))
		require.NoError(t, os.Symlink(target, file))
	}
	chmod := func(mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, file string) { require.NoError(t, os.Chmod(file, mode)) }
	}
	cases := []struct {
		name, path, reason string
		change             func(t *testing.T, file string)
	}{
		{"link", "etc/hostler/hooks/post_start.d/a", "is a link", move},
		{"link to a directory", "etc/hostler/hooks/post_start.d", "is a link", move},
		{"link on the path", "etc/hostler", "is a link", move},
		{"file of everyone", "etc/hostler/hooks/post_start.d/a", "can be changed by", chmod(0o757)},
		{"file of a group", "etc/hostler/hooks/post_start.d/a", "can be changed by", chmod(0o775)},
		{"directory of everyone", "etc/hostler/hooks/post_start.d", "can be changed by", chmod(0o777 | os.ModeSticky)},
		{"directory of a group on the path", "etc/hostler", "can be changed by", chmod(0o775)},
		{"root directory of everyone", ".", "can be changed by", chmod(0o777)},
		{"not executable", "etc/hostler/hooks/post_start.d/a", "cannot execute", chmod(0o644)},
		{"directory", "etc/hostler/hooks/post_start.d/a", "not a file", func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o755))
		}},
		{"pipe", "etc/hostler/hooks/post_start.d/a", "not a file", func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, unix.Mkfifo(file, 0o755))
		}},
		{"too large", "etc/hostler/hooks/post_start.d/a", "at most 16777216", func(t *testing.T, file string) {
			require.NoError(t, os.Truncate(file, runtime.MaxImageHookSize+1))
		}},
		{"name of the point", "etc/hostler/hooks/post_start.d/a", "the name of the point", func(t *testing.T, file string) {
			require.NoError(t, os.Rename(file, filepath.Join(filepath.Dir(file), "post_start")))
		}},
		{"other name", "etc/hostler/hooks/post_start.d/a", "other characters", func(t *testing.T, file string) {
			require.NoError(t, os.Rename(file, file+"\n"))
		}},
		{"other point", "etc/hostler/hooks/post_start.d", "no point at which", func(t *testing.T, file string) {
			require.NoError(t, os.Rename(file, filepath.Join(filepath.Dir(file), "pre_start.d")))
		}},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f := newImage(t)
			f.add(t, "post_start.d/a", "#!/bin/sh\n")
			k.change(t, filepath.Join(f.root, k.path))
			found := f.list([]string{"post_start"})
			require.Empty(t, found.Hooks)
			require.Len(t, found.Refused, 1)
			require.Contains(t, found.Refused[0], k.reason)
		})
	}
}

// What belongs to the user is refused, unless the user is root.
func TestImageHooksOfTheUser(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	f.uid = 0
	f.add(t, "post_start", "#!/bin/sh\n")
	require.Len(t, f.list([]string{"post_start"}).Hooks, 1)
	if uid := os.Geteuid(); uid != 0 { // only root can give files away
		f.uid = uid
		found := f.list([]string{"post_start"})
		require.Empty(t, found.Hooks)
		require.Contains(t, found.Refused[0], "belongs to the user")
		return
	}
	f.uid = 1234
	require.Len(t, f.list([]string{"post_start"}).Hooks, 1)
	for _, name := range []string{"etc/hostler/hooks/post_start", "etc/hostler"} {
		require.NoError(t, os.Chown(filepath.Join(f.root, name), f.uid, 0))
		found := f.list([]string{"post_start"})
		require.Empty(t, found.Hooks)
		require.Contains(t, found.Refused[0], "belongs to the user")
		require.NoError(t, os.Chown(filepath.Join(f.root, name), 0, 0))
	}
}

// The listing is bounded, whatever is in the image, and fits what is kept of a
// command's output.
func TestImageHooksAreBounded(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	for i := range 3 * runtime.MaxImageHooks {
		f.add(t, fmt.Sprintf("post_start.d/%03d%s", i, strings.Repeat("x", 60)), "")
		f.add(t, fmt.Sprintf("post_start.d/%s%03d", strings.Repeat("\x01", 200), i), "")
	}
	found := f.list([]string{"post_start"})
	require.Len(t, found.Hooks, runtime.MaxImageHooks)
	require.Len(t, found.Refused, runtime.MaxRefusedImageHooks+1)
	require.Equal(t, "256 more are refused", found.Refused[runtime.MaxRefusedImageHooks])
	text, err := json.Marshal(found)
	require.NoError(t, err)
	require.Less(t, len(text), runtime.OutputHead+runtime.OutputTail)
}

// execImageHook is the child that becomes a hook: root, digest, path.
func execImageHook() int {
	err := imageFiles{os.Args[2], os.Geteuid() + 1}.exec(os.Args[3], os.Args[4])
	fmt.Fprintln(os.Stderr, err)
	return shim.ExitRefused
}

// become runs a hook in a child and returns what it prints.
func (f imageFiles) become(t *testing.T, h runtime.ImageHook) (string, error) {
	t.Helper()
	c := exec.Command(os.Args[0], "hook", f.root, h.Digest, h.Path)
	c.Env = []string{"NAME=value"}
	out, err := c.CombinedOutput()
	return string(out), err
}

// A script and a program are executed with the environment, the script by its
// interpreter. Nothing can change what runs.
func TestRunImageHook(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	f.add(t, "post_start", "#!/bin/sh\necho $NAME; readlink $0; true >$0 || echo unchanged; exit 3\n")
	sh, err := filepath.EvalSymlinks("/bin/true")
	require.NoError(t, err)
	program, err := os.ReadFile(sh)
	require.NoError(t, err)
	f.add(t, "post_claim", string(program))
	f.add(t, "pre_destroy", "no program")
	found := f.list([]string{"post_start", "post_claim", "pre_destroy"})
	require.Len(t, found.Hooks, 3)

	out, err := f.become(t, found.Hooks[0])
	require.ErrorContains(t, err, "exit status 3")
	require.True(t, strings.HasPrefix(out, "value\n/memfd:image-hook (deleted)\n"), out)
	require.True(t, strings.HasSuffix(out, "unchanged\n"), out)
	out, err = f.become(t, found.Hooks[1])
	require.NoError(t, err, out)
	out, err = f.become(t, found.Hooks[2])
	require.ErrorContains(t, err, "exit status "+strconv.Itoa(shim.ExitRefused))
	require.Contains(t, out, "exec format error")
}

// A file that was replaced since it was listed is not run, and neither is one that
// would not be listed now.
func TestRunChangedImageHook(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	file := f.add(t, "post_start", "#!/bin/sh\necho ran\n")
	h := f.list([]string{"post_start"}).Hooks[0]
	refused := func(h runtime.ImageHook, reason string) {
		t.Helper()
		out, err := f.become(t, h)
		require.ErrorContains(t, err, "exit status "+strconv.Itoa(shim.ExitRefused))
		require.Contains(t, out, reason)
	}
	f.add(t, "post_start", "#!/bin/sh\necho RAN\n")
	refused(h, "was changed since the container was created")
	f.add(t, "post_start", "#!/bin/sh\necho ran\n")
	out, err := f.become(t, h)
	require.NoError(t, err)
	require.Equal(t, "ran\n", out)
	require.NoError(t, os.Chmod(file, 0o777))
	refused(h, "can be changed by")
	require.NoError(t, os.Remove(file))
	refused(h, "no such file")
	for _, path := range []string{"/bin/true", "/etc/hostler/hooks/../../../bin/true", "etc/hostler/hooks/post_start"} {
		refused(runtime.ImageHook{Path: path, Digest: h.Digest}, "not below")
	}
}
