package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// writeFile writes a file into a directory atomically.
func writeFile(t *testing.T, dir, name, source string) {
	t.Helper()
	tmp := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(tmp, []byte(source), 0o600))
	require.NoError(t, os.Rename(tmp, filepath.Join(dir, name)))
}

func workloadOf(id, image string) string { return fmt.Sprintf("id: %s\nimage: %s\n", id, image) }

// describe returns a short description of changes.
func describe(changes []Change) []string {
	list := []string{}
	for _, c := range changes {
		file := filepath.Base(c.File)
		_, duplicate := errors.AsType[*DuplicateIDError](c.Err)
		switch {
		case duplicate:
			list = append(list, file+" same id")
		case c.Err != nil:
			list = append(list, file+" broken")
		case c.Workload == nil:
			list = append(list, file+" removed "+c.ID)
		default:
			list = append(list, file+" "+c.Workload.ID+"="+c.Workload.Image)
		}
	}
	return list
}

// Each step is a change of the directory between two scans, and the reported
// changes.
func TestDirectoryChanges(t *testing.T) {
	type step struct {
		write  map[string]string
		remove []string
		want   []string
	}
	x1, x2, y1 := workloadOf("x", "one"), workloadOf("x", "two"), workloadOf("y", "one")
	files := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	for name, steps := range map[string][]step{
		"new, same, changed": {
			{write: files("a.yaml", x1, "b.yml", y1, "c.txt", "no", ".d.yaml", "no"), want: []string{"a.yaml x=one", "b.yml y=one"}},
			{write: files("a.yaml", x1)},
			{write: files("a.yaml", x2), want: []string{"a.yaml x=two"}},
		},
		"broken, then fixed": {
			{write: files("a.yaml", x1), want: []string{"a.yaml x=one"}},
			{write: files("a.yaml", "id: ["), want: []string{"a.yaml broken"}},
			{},
			{write: files("a.yaml", "id: [ "), want: []string{}}, // the same error
			{write: files("a.yaml", "image: y"), want: []string{"a.yaml broken"}},
			{write: files("a.yaml", x1)},
			{write: files("a.yaml", x2), want: []string{"a.yaml x=two"}},
		},
		"broken from the start": {
			{write: files("a.yaml", ""), want: []string{"a.yaml broken"}},
			{remove: []string{"a.yaml"}},
			{},
		},
		"removed": {
			{write: files("a.yaml", x1, "b.yaml", y1), want: []string{"a.yaml x=one", "b.yaml y=one"}},
			{remove: []string{"a.yaml"}},
			{want: []string{"a.yaml removed x"}},
			{write: files("a.yaml", x1), want: []string{"a.yaml x=one"}},
		},
		"broken, then removed": {
			{write: files("a.yaml", x1), want: []string{"a.yaml x=one"}},
			{write: files("a.yaml", "id: ["), want: []string{"a.yaml broken"}},
			{remove: []string{"a.yaml"}},
			{want: []string{"a.yaml removed x"}},
		},
		"missing in one scan": {
			{write: files("a.yaml", x1), want: []string{"a.yaml x=one"}},
			{remove: []string{"a.yaml"}},
			{write: files("a.yaml", x2), want: []string{"a.yaml x=two"}},
			{},
		},
		"renamed": {
			{write: files("a.yaml", x1), want: []string{"a.yaml x=one"}},
			{remove: []string{"a.yaml"}, write: files("b.yaml", x1)},
			{},
			{write: files("b.yaml", x2), want: []string{"b.yaml x=two"}},
		},
		"another id": {
			{write: files("a.yaml", x1), want: []string{"a.yaml x=one"}},
			{write: files("a.yaml", y1), want: []string{"a.yaml removed x", "a.yaml y=one"}},
		},
		"ids swapped": {
			{write: files("a.yaml", x1, "b.yaml", y1), want: []string{"a.yaml x=one", "b.yaml y=one"}},
			{write: files("a.yaml", y1, "b.yaml", x2), want: []string{"b.yaml x=two"}},
		},
		"same id, neither was first": {
			{write: files("a.yaml", x1, "b.yaml", x2), want: []string{"a.yaml same id", "b.yaml same id"}},
			{remove: []string{"a.yaml"}, want: []string{"b.yaml x=two"}},
		},
		"same id, one was first": {
			{write: files("b.yaml", x1), want: []string{"b.yaml x=one"}},
			{write: files("a.yaml", x2), want: []string{"a.yaml same id"}},
			{write: files("b.yaml", workloadOf("x", "three")), want: []string{"b.yaml x=three"}},
			{write: files("b.yaml", "id: ["), want: []string{"b.yaml broken"}},
			{remove: []string{"b.yaml"}, want: []string{"a.yaml x=two"}},
			{},
		},
		"id of another file": {
			{write: files("a.yaml", x1, "b.yaml", y1), want: []string{"a.yaml x=one", "b.yaml y=one"}},
			{write: files("a.yaml", y1), want: []string{"a.yaml same id"}}, // x stays
			{write: files("c.yaml", x2), want: []string{"c.yaml x=two"}},
			{remove: []string{"c.yaml"}},
			{want: []string{"c.yaml removed x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var f Directory
			for i, s := range steps {
				for _, file := range s.remove {
					require.NoError(t, os.Remove(filepath.Join(dir, file)))
				}
				for file, source := range s.write {
					writeFile(t, dir, file, source)
				}
				changes, err := f.scan(dir)
				require.NoError(t, err)
				want := s.want
				if want == nil {
					want = []string{}
				}
				require.Equal(t, want, describe(changes), "step %d", i)
			}
		})
	}
}

// A scan finds the valid workloads, and what is wrong with the other files.
func TestDirectoryScan(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a.yaml", workloadOf("x", "one"))
	writeFile(t, dir, "b.yaml", workloadOf("y", "one"))
	writeFile(t, dir, "c.yaml", workloadOf("y", "two"))
	writeFile(t, dir, "d.yaml", "id: x2\nimgae: b")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "e.yaml"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "f.yaml"), 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "g.yaml")))

	changes, err := new(Directory).scan(dir)
	require.NoError(t, err)
	require.Len(t, changes, 6)
	require.Equal(t, "x", changes[0].Workload.ID)
	var errs []error
	for _, c := range changes[1:] {
		require.Nil(t, c.Workload)
		errs = append(errs, c.Err)
	}
	duplicate, ok := errors.AsType[*DuplicateIDError](errs[0])
	require.True(t, ok)
	require.Equal(t, []string{filepath.Join(dir, "b.yaml"), filepath.Join(dir, "c.yaml")}, duplicate.Files)
	invalid, ok := errors.AsType[ValidationErrors](errs[2])
	require.True(t, ok)
	require.Equal(t, filepath.Join(dir, "d.yaml"), invalid[0].File)
	require.ErrorContains(t, errs[3], "not a regular file")
	require.ErrorContains(t, errs[4], "not a regular file")

	_, err = new(Directory).scan(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// runDirectory runs a Directory until the test ends and returns its changes.
func runDirectory(t *testing.T, f *Directory, dir string) (<-chan Change, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan Change, 100), make(chan error, 1)
	go func() { ended <- f.Run(ctx, dir, func(_ context.Context, c Change) { changes <- c }) }()
	t.Cleanup(cancel)
	return changes, ended
}

// nextChange returns the next change of a Directory.
func nextChange(t *testing.T, changes <-chan Change) string {
	t.Helper()
	return describe([]Change{testenv.Await(t, changes, "a change")})[0]
}

// Run reports the changes before its start and while it runs, for every way of
// writing a file.
func TestDirectoryRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "a.yaml", workloadOf("a", "one"))
	f := new(Directory)
	_, err := f.scan(dir)
	require.NoError(t, err)
	writeFile(t, dir, "b.yaml", workloadOf("b", "one")) // after the scan, before Run
	changes, _ := runDirectory(t, f, dir)
	require.Equal(t, "b.yaml b=one", nextChange(t, changes))

	writeFile(t, dir, "a.yaml", workloadOf("a", "two")) // replaced
	require.Equal(t, "a.yaml a=two", nextChange(t, changes))
	in, err := os.OpenFile(filepath.Join(dir, "a.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = in.WriteString("namme: x\n") // written in place
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.Equal(t, "a.yaml broken", nextChange(t, changes))
	require.NoError(t, os.Remove(filepath.Join(dir, "b.yaml")))
	require.Equal(t, "b.yaml removed b", nextChange(t, changes))
}

// A mounted configuration is changed by switching a link in the path of its
// files.
func TestDirectoryRunFollowsSymlinkSwitch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "..v"+version), 0o700))
		writeFile(t, filepath.Join(dir, "..v"+version), "a.yaml", workloadOf("a", "v"+version))
	}
	require.NoError(t, os.Symlink("..v1", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	changes, _ := runDirectory(t, new(Directory), dir)
	require.Equal(t, "a.yaml a=v1", nextChange(t, changes))
	require.NoError(t, os.Symlink("..v2", filepath.Join(dir, "..tmp")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	require.Equal(t, "a.yaml a=v2", nextChange(t, changes))
}

// If the directory itself is removed, Run returns an error and reports no
// removal: an unmounted disk must not drain every pool.
func TestDirectoryRunEndsWhenDirectoryIsRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.Mkdir(dir, 0o700))
	writeFile(t, dir, "a.yaml", workloadOf("a", "one"))
	changes, ended := runDirectory(t, new(Directory), dir)
	require.Equal(t, "a.yaml a=one", nextChange(t, changes))
	require.NoError(t, os.Rename(dir, dir+".gone"))
	require.ErrorIs(t, testenv.Await(t, ended, "Run returns"), os.ErrNotExist)
	require.Empty(t, changes)
}
