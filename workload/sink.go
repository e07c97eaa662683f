package workload

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// sinkFile is a sink of one kind, which is the value of its key type.
type sinkFile struct {
	s3    s3SinkFile
	gcs   gcsSinkFile
	azure azureSinkFile
	dir   dirSinkFile
}

// sinkKinds are the kinds of sinks, by the value of type.
var sinkKinds = []struct {
	name  string
	field func(*sinkFile) reflect.Value
}{
	{"s3", func(s *sinkFile) reflect.Value { return reflect.ValueOf(&s.s3).Elem() }},
	{"gcs", func(s *sinkFile) reflect.Value { return reflect.ValueOf(&s.gcs).Elem() }},
	{"azure", func(s *sinkFile) reflect.Value { return reflect.ValueOf(&s.azure).Elem() }},
	{"file", func(s *sinkFile) reflect.Value { return reflect.ValueOf(&s.dir).Elem() }},
}

func (v *sinkFile) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.MappingNode {
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", "write type and the keys of that type")
		return
	}
	child := keyOf(at, "type")
	all := pairs(n)
	i := slices.IndexFunc(all, func(p pair) bool { return p.key.Value == "type" })
	if i < 0 {
		d.addError(n, child, "is missing", "write one of "+strings.Join(sinkNames(), ", "))
		return
	}
	name := d.text(all[i].value, child, rule{enum: sinkNames()})
	for _, kind := range sinkKinds {
		if kind.name == name {
			d.readStruct(n, at, kind.field(v), rule{})
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
	var kinds []kindSchema
	for _, kind := range sinkKinds {
		kinds = append(kinds, kindSchema{kind.name, []reflect.Type{kind.field(v).Type()}})
	}
	return g.schemaByKind("The kind of storage.", kinds)
}

// sink returns the sink of the one kind that was given; the others are empty.
func (v *sinkFile) sink() Sink {
	return Sink{
		Type: SinkType(v.s3.Type + v.gcs.Type + v.azure.Type + v.dir.Type), Path: v.dir.Path,
		Bucket: v.s3.Bucket + v.gcs.Bucket + v.azure.Container, Account: v.azure.Account,
		Region: v.s3.Region, Endpoint: v.s3.Endpoint + v.azure.Endpoint,
		Prefix:      withSlash(string(v.s3.Prefix + v.gcs.Prefix + v.azure.Prefix + v.dir.Prefix)),
		Credentials: v.credentials(),
	}
}

func (v *sinkFile) credentials() Credentials {
	for _, c := range []*credentialsFile{v.s3.Credentials, v.gcs.Credentials, v.azure.Credentials} {
		if c != nil {
			return Credentials{File: c.File, Env: c.Env}
		}
	}
	return Credentials{}
}

// withSlash returns prefix with a trailing slash. Without it, a listing of tenant
// "a" would include the objects of tenant "ab".
func withSlash(prefix string) string { return strings.TrimSuffix(prefix, "/") + "/" }
