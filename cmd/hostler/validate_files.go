package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/workload"
)

// validation checks the files of one call of validate.
type validation struct {
	in                   io.Reader // what "-" stands for
	all, verbose, strict bool

	files   []*checkedFile
	skipped []string // files of other formats
	unread  error    // what was not read
}

// checkedFile is a file, what is wrong with it and, if Parse accepts it, its
// workload.
type checkedFile struct {
	name     string
	workload *workload.Workload
	findings []finding
	// isResolving reports whether the hooks that the workload copies are being
	// looked for, and isResolved whether they were.
	isResolving, isResolved bool
}

// finding is an error of a file, or a note about it.
type finding struct {
	workload.ValidationError
	Severity severity `json:"severity"`
}

type severity string

const (
	isError severity = "error"
	isNote  severity = "note"
)

func (f finding) String() string {
	if f.Severity == isNote {
		return workload.Note(f.ValidationError).String()
	}
	return f.ValidationError.String()
}

// check checks files and directories.
func (v *validation) check(args []string) {
	if len(args) == 0 {
		args = []string{"."}
	}
	seen := map[string]bool{}
	for _, arg := range args {
		names, read, err := v.namesOf(arg)
		if err == nil && len(names) == 0 {
			err = errors.New("the directory has no workload files")
		}
		if err != nil {
			f := &checkedFile{name: arg}
			v.addUnread(f, err)
			v.files = append(v.files, f)
		}
		for _, name := range names {
			if path := filepath.Clean(name); !seen[path] { // else several arguments stand for it
				seen[path] = true
				v.files = append(v.files, v.checkFile(name, read))
			}
		}
	}
	v.checkIDs()
	for _, f := range v.files {
		v.resolve(f)
	}
}

// addUnread adds that a file or a directory was not read: it is a finding among
// the others, and an error of the command.
func (v *validation) addUnread(f *checkedFile, err error) {
	f.add(isError, workload.ValidationError{Message: err.Error()})
	v.unread = errors.Join(v.unread, fmt.Errorf("%s: %w", f.name, err))
}

// fileReader reads a file.
type fileReader func(name string) ([]byte, error)

// namesOf returns the files that an argument stands for, and what reads them. A
// file that is an argument may be a pipe.
func (v *validation) namesOf(arg string) ([]string, fileReader, error) {
	info, err := os.Stat(arg)
	switch {
	case arg == "-" || err != nil || !info.IsDir(): // reading reports the error
		return []string{arg}, func(name string) ([]byte, error) { return readFile(v.in, name) }, nil
	case !v.all:
		names, err := workload.Files(arg)
		return names, workload.ReadFile, err
	}
	var names []string
	err = filepath.WalkDir(arg, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != arg && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
		case e.Type()&^fs.ModeSymlink == 0:
			switch v.judge(name) {
			case isWorkload:
				names = append(names, name)
			case isOther:
				v.skip(name)
			}
		}
		return nil
	})
	return names, workload.ReadFile, err
}

func (v *validation) checkFile(name string, read fileReader) *checkedFile {
	f := &checkedFile{name: name}
	source, err := read(name)
	if err != nil {
		v.addUnread(f, err)
		return f
	}
	w, err := workload.Parse(source, name)
	if err != nil {
		f.addErrors(err)
		return f
	}
	f.workload = w
	f.checkSeeds()
	for _, n := range slices.Concat(w.Notes, w.Advice) {
		f.add(isNote, workload.ValidationError(n))
	}
	f.lint()
	slices.SortStableFunc(f.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return f
}

// lint judges the commands and scripts of the hooks.
func (f *checkedFile) lint() {
	invalid, notes := f.workload.Lint(f.name)
	for _, e := range invalid {
		f.add(isError, e)
	}
	for _, n := range notes {
		f.add(isNote, workload.ValidationError(n))
	}
}

// checkSeeds checks what only the directory of the file shows.
func (f *checkedFile) checkSeeds() {
	for _, vol := range f.workload.Volumes {
		if vol.Seed == "" || f.name == "-" {
			continue
		}
		seed := filepath.Join(filepath.Dir(f.name), vol.Seed)
		if _, err := os.Stat(seed); err != nil {
			f.add(isError, workload.ValidationError{
				Field: "volumes", Message: fmt.Sprintf("the seed %s of volume %s does not exist", seed, vol.Name),
				Hint: "create the directory, or remove the seed",
			})
		}
	}
}

// checkIDs reports files whose workloads have the same id: a server applies at most
// one of them.
func (v *validation) checkIDs() {
	first := map[string]*checkedFile{}
	for _, f := range v.files {
		switch {
		case f.workload == nil:
		case first[f.workload.ID] == nil:
			first[f.workload.ID] = f
		default:
			f.addAt(isError, "id", "is also that of "+first[f.workload.ID].name, "choose another id")
		}
	}
}

// resolve adds the hooks that a workload copies from that of another file, which
// is resolved first, and the errors of that. A workload of no file is not looked
// for: the server may have it.
func (v *validation) resolve(f *checkedFile) {
	if f.isResolved || f.workload == nil || f.workload.HooksFrom == "" {
		return
	}
	f.isResolving = true
	defer func() { f.isResolving, f.isResolved = false, true }()
	for _, other := range v.files {
		if other.workload == nil || other.workload.ID != f.workload.HooksFrom {
			continue
		}
		if other.isResolving {
			f.addAt(isError, "hooks_from", "is "+other.workload.ID+", which copies the hooks of this workload", "copy in one direction")
			return
		}
		if v.resolve(other); other.workload.HooksFrom != "" {
			return // what it copies is not known, or was not valid
		}
		merged, err := f.workload.WithHooksOf(other.workload, f.name)
		if invalid, ok := errors.AsType[workload.ValidationErrors](err); ok {
			// Their lines are those of the merged file, which is not a file.
			for _, e := range invalid {
				f.addAt(isError, "hooks_from", "with the hooks of "+other.workload.ID+", "+e.Field+" "+e.Message, e.Hint)
			}
			return
		}
		f.workload = merged
		return
	}
}

func (f *checkedFile) addErrors(err error) {
	invalid, ok := errors.AsType[workload.ValidationErrors](err)
	if !ok {
		invalid = workload.ValidationErrors{{Message: err.Error()}}
	}
	for _, e := range invalid {
		f.add(isError, e)
	}
}

// addAt adds a finding about a field of a valid file.
func (f *checkedFile) addAt(s severity, field, message, hint string) {
	for _, e := range f.workload.ValidationErrors(f.name, workload.ValidationError{Field: field, Message: message, Hint: hint}) {
		f.add(s, e)
	}
}

func (f *checkedFile) add(s severity, e workload.ValidationError) {
	e.File = f.name
	f.findings = append(f.findings, finding{e, s})
}

// count returns the number of findings of a severity.
func (f *checkedFile) count(s severity) (n int) {
	for _, found := range f.findings {
		if found.Severity == s {
			n++
		}
	}
	return n
}

// result describes a file in one line.
func (f *checkedFile) result() string {
	if len(f.findings) == 0 {
		return f.name + ": valid"
	}
	return fmt.Sprintf("%s: %s, %s", f.name, plural(f.count(isError), "error"), plural(f.count(isNote), "note"))
}

// worstCases describes how long the hooks of each point of a file can take.
func (f *checkedFile) worstCases() []string {
	var all []string
	for _, p := range hooks.Points() {
		if f.workload == nil {
			break
		}
		if d := f.workload.WorstCase(p.Point); d > 0 {
			all = append(all, fmt.Sprintf("%s: the hooks of %s take at most %s", f.name, p.Point, d.Round(time.Millisecond)))
		}
	}
	for _, g := range hooks.Gates() {
		if f.workload == nil {
			break
		}
		if d := f.workload.GateWorstCase(g.Gate); d > 0 {
			all = append(all, fmt.Sprintf("%s: %s delays a tenant by at most %s", f.name, g.Gate, d.Round(time.Millisecond)))
		}
	}
	return all
}

// findings returns those of all files.
func (v *validation) findings() []finding {
	all := []finding{}
	for _, f := range v.files {
		all = append(all, f.findings...)
	}
	return all
}

// failed reports whether the exit status is that of a failure.
func (v *validation) failed() bool {
	for _, f := range v.findings() {
		if f.Severity == isError || v.strict {
			return true
		}
	}
	return false
}

// lines returns what is printed.
func (v *validation) lines() []string {
	all := lines(v.findings())
	invalid, errs, notes := 0, 0, 0
	for _, name := range v.skipped {
		all = append(all, name+": skipped: it has none of the fields id, image and pool of a workload")
	}
	for _, f := range v.files {
		if v.verbose {
			all = append(append(all, f.result()), f.worstCases()...)
		}
		n := f.count(isError)
		errs, notes = errs+n, notes+f.count(isNote)
		if n > 0 {
			invalid++
		}
	}
	if len(v.files) > 1 {
		all = append(all, fmt.Sprintf("%s, %d invalid: %s, %s", plural(len(v.files), "file"), invalid, plural(errs, "error"), plural(notes, "note")))
	}
	return all
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
