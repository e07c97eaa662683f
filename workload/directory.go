package workload

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Directory follows one directory of workload files, *.yaml and *.yml. It
// remembers what it has told of each, so that only changes are told. The zero
// value knows of nothing yet. It is not safe for several goroutines.
type Directory struct {
	entries   map[string]*entry            // by the file's path
	published map[string]publishedWorkload // by id
}

// entry is what is known of one file.
type entry struct {
	source  []byte
	parsed  *Workload // of source; nil when it has faults
	err     error     // why source is not in force
	active  *Workload // in force: the last one without faults
	missing bool      // was not there when last looked for
}

// publishedWorkload is what was last told of a workload in force.
type publishedWorkload struct {
	file   string
	source []byte
}

// Change is something that happened to a file of a Folder. With neither a
// Workload nor an Err, no file describes the workload ID any longer.
type Change struct {
	File     string
	ID       string    // of the workload; empty with Err
	Workload *Workload // a new or changed one
	Err      error     // Faults, a *DuplicateIDError, or why it cannot be read; what was in force before stays
}

// DuplicateIDError is that two files describe workloads with one id. The one that was
// there first stays in force; of two new ones, neither is.
type DuplicateIDError struct {
	ID    string
	Files []string // sorted
}

func (e *DuplicateIDError) Error() string {
	return fmt.Sprintf("id %s is in more than one file: %s", e.ID, strings.Join(e.Files, ", "))
}

// Load reads the directory and returns the workloads by their file's path, and
// the errors of files that hold none: each a Faults, a *DuplicateIDError or an I/O
// error. A Run afterwards tells only what changed since.
func (f *Directory) Load(dir string) (map[string]*Workload, []error) {
	changes, err := f.scan(dir)
	if err != nil {
		return nil, []error{err}
	}
	var errs []error
	for _, c := range changes {
		if c.Err != nil {
			errs = append(errs, c.Err)
		}
	}
	loaded := map[string]*Workload{}
	for file, e := range f.entries {
		if e.active != nil {
			loaded[file] = e.active
		}
	}
	return loaded, errs
}

// scan reads the directory once and returns what changed since the last time:
// removals first, then the rest by file. Its error is that of the
// directory itself, and then nothing is known to have changed.
func (f *Directory) scan(dir string) ([]Change, error) {
	files, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	if f.entries == nil {
		f.entries, f.published = map[string]*entry{}, map[string]publishedWorkload{}
	}
	prior := map[string]string{} // what was wrong with each file before
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

	return append(f.removals(), f.changes(prior)...), nil
}

// removals tells of the ids that are in force no longer, sorted.
func (f *Directory) removals() []Change {
	inForce := map[string]bool{}
	for _, e := range f.entries {
		if e.active != nil {
			inForce[e.active.ID] = true
		}
	}
	var changes []Change
	for _, id := range slices.Sorted(maps.Keys(f.published)) {
		if !inForce[id] {
			changes = append(changes, Change{File: f.published[id].file, ID: id})
			delete(f.published, id)
		}
	}
	return changes
}

// changes tells, file by file, of the errors that were not there before and of
// the workloads that are not what was told last.
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

// listFiles lists the workload files of a directory. Names that begin with a dot
// are those of editors and of mounted configuration, not of authors.
func listFiles(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder of workload files: %w", err)
	}
	var files []string
	for _, e := range list {
		ext := filepath.Ext(e.Name())
		if (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// readEntry reads one file anew. One that is not there is given up only when it is
// missed twice: editors take a file away for a moment to put another in its
// place, and to believe them would be to drain a pool.
func (f *Directory) readEntry(file string, e *entry, listed bool) {
	source, err := readFile(file)
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
	e.source = source
	e.parsed, e.err = Parse(source, file)
}

// resolveConflicts decides which workload of each file is in force: the one that it
// describes, unless another file that had the id before describes it too.
func (f *Directory) resolveConflicts() {
	filesByID := map[string][]string{} // by id, the files that describe it
	for file, e := range f.entries {
		if w := cmp.Or(e.parsed, e.active); w != nil && !e.missing {
			filesByID[w.ID] = append(filesByID[w.ID], file)
		}
	}
	activeFile := map[string]string{} // by id, the file whose workload is in force
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
		// A file that is missed, or that now describes another workload and may
		// not, keeps its last one until another file has taken over the id.
		if e.active != nil && activeFile[e.active.ID] != "" && activeFile[e.active.ID] != file {
			e.active = nil
		}
	}
}

// hasMissing says whether a file is missed and may be gone.
func (f *Directory) hasMissing() bool {
	for _, e := range f.entries {
		if e.missing {
			return true
		}
	}
	return false
}

// readFile reads no more of a file than Parse takes.
func readFile(file string) ([]byte, error) {
	// Opening a pipe would wait for a writer that may never come.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is no regular file", file)
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read a workload file: %w", err)
	}
	defer in.Close() // only read from: nothing is lost
	source, err := io.ReadAll(io.LimitReader(in, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return source, nil
}
