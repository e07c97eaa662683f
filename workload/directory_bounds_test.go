package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory has at most so many files that are followed. More take the place of
// none, the first of them is reported, and it is followed when there is room.
func TestFollowedFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for i := range MaxFollowedFiles {
		write(fmt.Sprintf("m%04d.yaml", i), fmt.Sprintf("id: m%d\nimage: x\n", i))
	}
	var f Directory
	changes, err := f.scan(dir)
	require.NoError(t, err)
	require.Len(t, changes, MaxFollowedFiles)
	require.Zero(t, f.result().Omitted)
	for i := range 3000 { // more than are read at a time
		write(fmt.Sprintf("a%04d.yaml", i), "id: other\nimage: x\n")
	}
	for range 2 {
		changes, err = f.scan(dir)
		require.NoError(t, err)
		require.Empty(t, changes)
		found := f.result()
		require.Len(t, found.Files, MaxFollowedFiles)
		require.Equal(t, 3000, found.Omitted)
		require.Equal(t, []Change{{File: filepath.Join(dir, "a0000.yaml"), Err: errTooManyFiles}}, found.Invalid)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "m0500.yaml")))
	for _, want := range []int{0, 2} { // a removal counts after two scans
		changes, err = f.scan(dir)
		require.NoError(t, err)
		require.Len(t, changes, want)
		require.LessOrEqual(t, len(f.entries), MaxFollowedFiles)
	}
	require.Equal(t, "m500", changes[0].ID)
	require.Equal(t, filepath.Join(dir, "a0000.yaml"), changes[1].File)
	require.Equal(t, 2999, f.result().Omitted)

	fresh := new(Directory) // as after a restart: the first by name
	_, err = fresh.scan(dir)
	require.NoError(t, err)
	require.Len(t, fresh.entries, MaxFollowedFiles)
	require.Equal(t, filepath.Join(dir, "a1000.yaml"), fresh.firstOmitted)
}

// The files of a directory have a bound together, which what is still in use of
// invalid ones counts for.
func TestFollowedBytesAreBounded(t *testing.T) {
	f := Directory{entries: map[string]*entry{}}
	half := make([]byte, maxFollowedBytes/2)
	old := &Workload{Source: half}
	f.entries["a"] = &entry{source: half, parsed: old, active: old}
	require.True(t, f.hasRoom("b", half))
	require.False(t, f.hasRoom("b", make([]byte, len(half)+1)))
	require.True(t, f.hasRoom("a", make([]byte, maxFollowedBytes)), "it replaces its own")
	f.entries["a"] = &entry{source: []byte("["), active: old}
	require.False(t, f.hasRoom("b", half))

	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, half[:MaxSize], 0o600))
	f.entries["b"], f.entries["c"] = &entry{source: half}, new(entry)
	f.readEntry(file, f.entries["c"], true)
	require.ErrorIs(t, f.entries["c"].err, errTooLargeTogether)
	require.Nil(t, f.entries["c"].source)
}

// A thousand files with the same id have no error each that names all of them.
func TestDuplicateIDErrorIsShort(t *testing.T) {
	e := &DuplicateIDError{ID: "web"}
	for i := range MaxFollowedFiles {
		e.Files = append(e.Files, fmt.Sprintf("%04d.yaml", i))
	}
	require.Equal(t, "id web is in more than one file: 0000.yaml, 0001.yaml, 0002.yaml, 0003.yaml, 0004.yaml and 995 more", e.Error())
	e.Files = e.Files[:2]
	require.True(t, strings.HasSuffix(e.Error(), ": 0000.yaml, 0001.yaml"))
}
