package workload

import (
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// hooksFile is the hooks of each point. Package hooks has the table of points.
type hooksFile map[hooks.Point][]hookFile

func (v *hooksFile) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.MappingNode {
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", "write points with lists of hooks")
		return
	}
	*v = hooksFile{}
	for _, p := range pairs(n) {
		point := hooks.Point(p.key.Value)
		if !point.IsValid() {
			d.unknown(p.key, at, pointNames())
			continue
		}
		var list []hookFile
		d.read(p.value, keyOf(at, p.key.Value), reflect.ValueOf(&list).Elem(), hookRule(point.Rule()))
		(*v)[point] = list
	}
}

// hookRule returns the rule of the hooks of a point.
func hookRule(p hooks.PointRule) rule {
	return rule{keys: map[string]rule{"timeout": {
		min: "1ms", max: strings.Replace(p.MaxTimeout.String(), "m0s", "m", 1),
		defaultValue: p.DefaultTimeout.String(), hasDefault: true,
	}}}
}

func pointNames() []string {
	var list []string
	for _, p := range hooks.Points() {
		list = append(list, string(p.Point))
	}
	return list
}

func (v *hooksFile) schema(g *generator, _ rule) schema {
	properties := schema{}
	for _, p := range hooks.Points() {
		properties[string(p.Point)] = schema{
			"type": "array", "items": g.schemaOf(reflect.TypeFor[hookFile](), rule{}), "description": p.Doc,
		}
	}
	return schema{"type": "object", "additionalProperties": false, "properties": properties}
}
