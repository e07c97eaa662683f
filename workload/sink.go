package workload

import (
	"reflect"
	"slices"

	"gopkg.in/yaml.v3"
)

// sinkFile is one of the kinds of sink; its key type says which.
type sinkFile struct {
	s3  s3SinkFile
	dir dirSinkFile
}

// sinkKinds are the kinds, by the value of type.
var sinkKinds = []struct {
	name string
	of   func(*sinkFile) reflect.Value
}{
	{"s3", func(s *sinkFile) reflect.Value { return reflect.ValueOf(&s.s3).Elem() }},
	{"file", func(s *sinkFile) reflect.Value { return reflect.ValueOf(&s.dir).Elem() }},
}

func (v *sinkFile) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, at, "is "+kindOf(n)+", not a mapping", "write type and what belongs to it")
		return
	}
	below := keyOf(at, "type")
	all := pairs(n)
	i := slices.IndexFunc(all, func(p pair) bool { return p.key.Value == "type" })
	if i < 0 {
		d.fault(n, below, "is missing", "write one of s3, file")
		return
	}
	name := d.text(all[i].value, below, rule{enum: sinkNames()})
	for _, kind := range sinkKinds {
		if kind.name == name {
			d.readStruct(n, at, kind.of(v))
		}
	}
}

func sinkNames() []string {
	var list []string
	for _, kind := range sinkKinds {
		list = append(list, kind.name)
	}
	return list
}

func (v *sinkFile) schema(g *generator, _ rule) schema {
	var kinds []schema
	for _, kind := range sinkKinds {
		kinds = append(kinds, g.of(kind.of(v).Type(), rule{}))
	}
	return schema{"oneOf": kinds}
}
