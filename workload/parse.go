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
	d := &decoder{file: name, where: map[string]*yaml.Node{}, faulty: map[string]bool{}}
	root, syntax := parseNode(source)
	if syntax != nil {
		syntax.File = name
		return nil, Faults{*syntax}
	}
	guard := guard{d: d}
	if !guard.walk(root, "", 0) {
		return nil, d.faults.ordered()
	}
	var f file
	d.read(root, "", reflect.ValueOf(&f).Elem(), rule{})
	d.check(&f)
	if len(d.faults) > 0 {
		return nil, d.faults.ordered()
	}
	w := f.workload()
	w.Source = bytes.Clone(source)
	w.Revision = revision(w)
	return w, nil
}
