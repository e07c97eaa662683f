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
	if len(d.faults) > 0 {
		return nil, d.faults.ordered()
	}
	w := f.workload()
	w.Source = bytes.Clone(source)
	w.Revision = revision(w)
	return w, nil
}

// decode reads what the file says. Faults that leave the rest readable are in
// the decoder.
func decode(source []byte, name string) (*decoder, *file, error) {
	d := &decoder{file: name, where: map[string]*yaml.Node{}, faulty: map[string]bool{}}
	root, syntax := parseNode(source)
	if syntax != nil {
		syntax.File = name
		return nil, nil, Faults{*syntax}
	}
	guard := guard{d: d}
	if !guard.walk(root, "", 0) {
		return nil, nil, d.faults.ordered()
	}
	var f file
	d.read(root, "", reflect.ValueOf(&f).Elem(), rule{})
	return d, &f, nil
}

// Faults are faults that were found after Parse. Each gets the place of its
// field in the file or, where the file does not give that field, of the mapping
// around it.
func (w *Workload) Faults(name string, found ...Fault) Faults {
	d, _, err := decode(w.Source, name)
	if err != nil {
		d = &decoder{file: name, faulty: map[string]bool{}}
	}
	for _, f := range found {
		d.wrong(f.Field, f.Message, f.Remedy)
	}
	return d.faults.ordered()
}
