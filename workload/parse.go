package workload

import (
	"bytes"
	"reflect"

	"gopkg.in/yaml.v3"
)

// Parse reads a workload file, YAML or JSON. The name of the file is only for
// the faults. The error is always Faults: everything that is wrong with the
// file, unless its syntax is. Seeds are not looked for: whoever has the folder
// does that.
func Parse(source []byte, name string) (*Workload, error) {
	d, f, err := decode(source, name)
	if err != nil {
		return nil, err
	}
	d.check(f)
	if len(d.errs) > 0 {
		return nil, d.errs.sortAndLimit()
	}
	w := f.workload()
	w.Source = bytes.Clone(source)
	w.Revision = revision(w)
	return w, nil
}

// decode reads what the file says. Faults that leave the rest readable are in
// the decoder.
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

// ValidationErrors are faults that were found after Parse. Each gets the place of its
// field in the file or, where the file does not give that field, of the mapping
// around it.
func (w *Workload) ValidationErrors(name string, invalid ...ValidationError) ValidationErrors {
	d, _, err := decode(w.Source, name)
	if err != nil {
		d = &decoder{file: name, invalid: map[string]bool{}}
	}
	for _, f := range invalid {
		d.addErrorAt(f.Field, f.Message, f.Hint)
	}
	return d.errs.sortAndLimit()
}
