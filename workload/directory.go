package workload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler/hostler/internal/regular"
)

// Directory follows a directory of workload files, *.yaml and *.yml. It remembers
// what it has reported for each file and reports only changes. The zero value is
// ready to use. It is not safe for concurrent use.
type Directory struct {
	// OnScan is called after each scan, when its changes were applied; nil: nothing is.
	OnScan func(context.Context, Scan)

	entries   map[string]*entry            // by the file's path
	published map[string]publishedWorkload // by id

	omitted      int    // the number of files that are not followed at the last scan
	firstOmitted string // the first of them
}

// entry is the state of one file.
type entry struct {
	source  []byte
	parsed  *Workload // of source; nil if it is invalid
	err     error     // why source is not active
	active  *Workload // the last valid workload
	missing bool      // the file did not exist at the last scan
}

// publishedWorkload is what was last reported for an active workload.
type publishedWorkload struct {
	file   string
	source []byte
}

// Change is a change of a file of a Directory. If it has neither a Workload nor
// an Err, no file describes the workload ID any more.
type Change struct {
	File     string
	ID       string    // of the workload; empty with Err
	Workload *Workload // a new or changed one
	Err      error     // ValidationErrors, a *DuplicateIDError, or an I/O error; the active workload does not change
}

// Scan is what a Directory has found.
type Scan struct {
	Files   []string // all workload files that are followed, sorted
	Invalid []Change // those with an Err, by file; ID is the workload's if it is known
	Omitted int      // the number of files beyond MaxFollowedFiles; the first is in Invalid
}

// result returns what the last scan has found.
func (f *Directory) result() Scan {
	s := Scan{Files: slices.Sorted(maps.Keys(f.entries))}
	for _, file := range s.Files {
		e := f.entries[file]
		if e.err == nil {
			continue
		}
		c := Change{File: file, Err: e.err}
		if w := cmp.Or(e.parsed, e.active); w != nil {
			c.ID = w.ID
		}
		s.Invalid = append(s.Invalid, c)
	}
	if s.Omitted = f.omitted; s.Omitted > 0 {
		s.Invalid = append(s.Invalid, Change{File: f.firstOmitted, Err: errTooManyFiles})
	}
	return s
}

// DuplicateIDError is returned if several files describe workloads with the same
// id. The file that was first remains active; of two new files, neither is.
type DuplicateIDError struct {
	ID    string
	Files []string // sorted
}

const maxNamedFiles = 5

func (e *DuplicateIDError) Error() string {
	more := ""
	if n := len(e.Files) - maxNamedFiles; n > 0 { // each of a thousand files has this text
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("id %s is in more than one file: %s%s", e.ID, strings.Join(e.Files[:min(len(e.Files), maxNamedFiles)], ", "), more)
}

// scan reads the directory once and returns the changes since the last scan:
// removals first, then the others by file, and a workload after the one that it
// copies hooks from. It returns an error only if the directory itself cannot be
// read; then there are no changes.
func (f *Directory) scan(dir string) ([]Change, error) {
	files, err := f.followedFiles(dir)
	if err != nil {
		return nil, err
	}
	if f.entries == nil {
		f.entries, f.published = map[string]*entry{}, map[string]publishedWorkload{}
	}
	prior := map[string]string{} // the previous error of each file
	for file, e := range f.entries {
		prior[file] = fmt.Sprint(e.err)
		f.readEntry(file, e, slices.Contains(files, file))
	}
	for _, file := range files {
		if f.entries[file] == nil {
			f.entries[file] = &entry{}
			f.readEntry(file, f.entries[file], true)
		}
	}
	f.resolveConflicts()

	return append(f.removals(), parentsFirst(f.changes(prior))...), nil
}

// removals returns the changes for ids that are not active any more, sorted.
func (f *Directory) removals() []Change {
	active := map[string]bool{}
	for _, e := range f.entries {
		if e.active != nil {
			active[e.active.ID] = true
		}
	}
	var changes []Change
	for _, id := range slices.Sorted(maps.Keys(f.published)) {
		if !active[id] {
			changes = append(changes, Change{File: f.published[id].file, ID: id})
			delete(f.published, id)
		}
	}
	return changes
}

// changes returns the new errors, and the workloads that differ from what was
// last reported, ordered by file.
func (f *Directory) changes(prior map[string]string) []Change {
	var changes []Change
	for _, file := range slices.Sorted(maps.Keys(f.entries)) {
		e := f.entries[file]
		if e.err != nil && prior[file] != e.err.Error() {
			changes = append(changes, Change{File: file, Err: e.err})
		}
		if e.active == nil {
			continue
		}
		last, ok := f.published[e.active.ID]
		if !ok || !bytes.Equal(last.source, e.active.Source) {
			changes = append(changes, Change{File: file, ID: e.active.ID, Workload: e.active})
		}
		f.published[e.active.ID] = publishedWorkload{file, e.active.Source}
	}
	return changes
}

// parentsFirst moves each workload behind the one that it copies hooks from.
func parentsFirst(changes []Change) []Change {
	byID := map[string]*Workload{}
	for _, c := range changes {
		byID[c.ID] = c.Workload
	}
	depth := func(c Change) (n int) {
		for w := c.Workload; w != nil && w.HooksFrom != "" && n < len(changes); w = byID[w.HooksFrom] {
			n++ // workloads can name each other
		}
		return n
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(depth(a), depth(b)) })
	return changes
}

// Files returns the workload files of a directory.
func Files(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory of workload files: %w", err)
	}
	var files []string
	for _, e := range list {
		if isFileName(e.Name()) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// readEntry reads one file again. A missing file is removed only if it is missing
// in two scans: editors remove a file for a short time to replace it, and a
// removal would drain a pool.
func (f *Directory) readEntry(file string, e *entry, listed bool) {
	source, err := ReadFile(file)
	if !listed || errors.Is(err, fs.ErrNotExist) {
		if e.missing || e.active == nil {
			delete(f.entries, file)
		}
		e.missing = true
		return
	}
	e.missing = false
	if err != nil {
		e.source, e.parsed, e.err = nil, nil, err
		return
	}
	if e.source != nil && bytes.Equal(source, e.source) {
		return
	}
	if !f.hasRoom(file, source) {
		e.source, e.parsed, e.err = nil, nil, errTooLargeTogether
		return
	}
	e.source = source
	e.parsed, e.err = Parse(source, file)
}

// resolveConflicts sets the active workload of each file: the one that the file
// describes, unless another file that had the id before also describes it.
func (f *Directory) resolveConflicts() {
	filesByID := map[string][]string{} // by id, the files that describe it
	for file, e := range f.entries {
		if w := cmp.Or(e.parsed, e.active); w != nil && !e.missing {
			filesByID[w.ID] = append(filesByID[w.ID], file)
		}
	}
	activeFile := map[string]string{} // by id, the file whose workload is active
	for id, files := range filesByID {
		slices.Sort(files)
		i := slices.IndexFunc(files, func(file string) bool {
			active := f.entries[file].active
			return active != nil && active.ID == id
		})
		if len(files) == 1 {
			i = 0
		}
		if i >= 0 {
			activeFile[id] = files[i]
		}
	}
	for file, e := range f.entries {
		if w := e.parsed; w != nil && !e.missing {
			if activeFile[w.ID] == file {
				e.active, e.err = w, nil
			} else {
				e.err = &DuplicateIDError{ID: w.ID, Files: filesByID[w.ID]}
			}
		}
		// A file that is missing, or whose new id belongs to another file, keeps
		// its last workload until another file has its id.
		if e.active != nil && activeFile[e.active.ID] != "" && activeFile[e.active.ID] != file {
			e.active = nil
		}
	}
}

// hasMissing reports whether a file is missing and may have been removed.
func (f *Directory) hasMissing() bool {
	for _, e := range f.entries {
		if e.missing {
			return true
		}
	}
	return false
}

// ReadFile reads a workload file of a directory, at most one byte more than Parse
// accepts. It must be a regular file.
func ReadFile(file string) ([]byte, error) {
	in, err := regular.Open(os.OpenFile, file)
	if err != nil {
		return nil, fmt.Errorf("open workload file: %w", err)
	}
	defer in.Close() // it was only read
	source, err := io.ReadAll(io.LimitReader(in, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return source, nil
}
