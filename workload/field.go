package workload

import (
	"reflect"
	"regexp"
	"strings"
)

// field is one key of a mapping, as the tags of a struct in file.go say.
type field struct {
	index    int
	name     string
	alias    string
	doc      string
	required bool
	rule     rule
}

// rule is what holds for a value, beyond its type. For a list, pattern, enum,
// min and max hold for each element.
type rule struct {
	enum     []string
	pattern  *regexp.Regexp
	hint     string
	min, max string // in the notation of the value itself
	items    string
	unique   bool
	std      string // the default, as one would write it
	hasStd   bool
}

// element is the rule for the elements of a list under rule r.
func (r rule) element() rule {
	return rule{enum: r.enum, pattern: r.pattern, hint: r.hint, min: r.min, max: r.max}
}

// fieldsOf lists the keys of a struct of file.go in their order.
func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		f := field{
			index: i, name: tag.Get("yaml"), alias: tag.Get("alias"), doc: tag.Get("doc"),
			required: tag.Get("required") == "true",
			rule: rule{
				hint: tag.Get("hint"), min: tag.Get("min"), max: tag.Get("max"),
				items: tag.Get("items"), unique: tag.Get("unique") == "true",
			},
		}
		f.rule.std, f.rule.hasStd = tag.Lookup("default")
		if list := tag.Get("enum"); list != "" {
			f.rule.enum = strings.Split(list, ",")
		}
		if p := tag.Get("pattern"); p != "" {
			f.rule.pattern = regexp.MustCompile(p)
		}
		fields = append(fields, f)
	}
	return fields
}
