package workload

import (
	"bytes"
	"reflect"

	"gopkg.in/yaml.v3"
)

// Parse parses a workload file, YAML or JSON, or the front matter of a Markdown
// file. The name of the file is used in errors, and its extension shows whether it
// is Markdown. The error is always a ValidationErrors: all errors of the file, or
// only its syntax error. Parse does not check that seeds exist: it does not have
// their directory.
func Parse(source []byte, name string) (*Workload, error) {
	parsing <- struct{}{}
	defer func() { <-parsing }()
	source = frontMatter(source, name)
	d, f, err := decode(source, name)
	if err != nil {
		return nil, err
	}
	d.check(f)
	if len(d.errs) > 0 {
		return nil, d.errs.sortAndLimit()
	}
	w := f.workload()
	d.advise(f)
	w.Notes, w.Advice = sortedNotes(d.notes), sortedNotes(d.advice)
	w.Source = bytes.Clone(source)
	w.Revision, w.File = revision(w), FileID(source)
	return w, nil
}

// decode decodes the file. The decoder has the errors that do not prevent the
// decoding of the rest.
func decode(source []byte, name string) (*decoder, *file, error) {
	d := &decoder{file: name, nodes: map[string]*yaml.Node{}, invalid: map[string]bool{}}
	root, invalid := parseNode(source)
	if invalid != nil {
		invalid.File = name
		return nil, nil, ValidationErrors{*invalid}
	}
	checker := nodeChecker{d: d}
	if !checker.walk(root, "", 0) {
		return nil, nil, d.errs.sortAndLimit()
	}
	var f file
	d.read(root, "", reflect.ValueOf(&f).Elem(), rule{})
	return d, &f, nil
}

// ValidationErrors returns errors that were found after Parse with their
// positions in the file: that of the field or, if the file does not have it, of
// the enclosing mapping.
func (w *Workload) ValidationErrors(name string, invalid ...ValidationError) ValidationErrors {
	parsing <- struct{}{}
	defer func() { <-parsing }()
	d, _, err := decode(w.Source, name)
	if err != nil {
		d = &decoder{file: name, invalid: map[string]bool{}}
	}
	for _, f := range invalid {
		d.addErrorAt(f.Field, f.Message, f.Hint)
	}
	return d.errs.sortAndLimit()
}
