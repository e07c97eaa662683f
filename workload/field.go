package workload

import (
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// field is one key of a mapping, as described by the tags of a struct in file.go.
type field struct {
	index    []int // of the field, perhaps in an embedded struct
	name     string
	alias    string
	doc      string
	required bool
	rule     rule
}

// rule has the constraints of a value in addition to its type. For a list,
// pattern, enum, min and max apply to each element.
type rule struct {
	enum         []string
	pattern      *regexp.Regexp
	hint         string
	min, max     string // in the notation of the value itself
	items        string
	unique       bool
	defaultValue string // in the notation of the file
	hasDefault   bool
	keys         map[string]rule // of a mapping: instead of the rules in the tags of its keys
}

// element returns the rule for the elements of a list with rule r.
func (r rule) element() rule {
	return rule{enum: r.enum, pattern: r.pattern, hint: r.hint, min: r.min, max: r.max, keys: r.keys}
}

// fieldsByType returns the keys of every struct of file.go. It compiles their
// patterns only once.
var fieldsByType = sync.OnceValue(func() map[reflect.Type][]field {
	all := map[reflect.Type][]field{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		_, self := reflect.New(t).Interface().(customField)
		if t.Kind() != reflect.Struct || self || all[t] != nil {
			return
		}
		all[t] = readTags(t)
		for _, f := range all[t] {
			add(t.FieldByIndex(f.index).Type)
		}
	}
	add(reflect.TypeFor[file]())
	// Structs within types that have their own decoder.
	add(reflect.TypeFor[hookFile]())
	add(reflect.TypeFor[listedHookFile]())
	add(reflect.TypeFor[authFields]())
	add(reflect.TypeFor[secretFile]())
	add(reflect.TypeFor[listedSecretFile]())
	add(reflect.TypeFor[parameterFile]())
	for _, kind := range listedActions {
		add(kind.field(new(listedAction)).Type())
	}
	for _, kind := range sinkKinds {
		add(kind.field(new(sinkFile)).Type())
	}
	return all
})

// fieldsOf returns the keys of a struct of file.go in their order.
func fieldsOf(t reflect.Type) []field { return fieldsByType()[t] }

func readTags(t reflect.Type) []field {
	var fields []field
	for _, sf := range reflect.VisibleFields(t) {
		if sf.Anonymous {
			continue // its fields follow
		}
		tag := sf.Tag
		f := field{
			index: sf.Index, name: tag.Get("yaml"), alias: tag.Get("alias"), doc: tag.Get("doc"),
			required: tag.Get("required") == "true",
			rule: rule{
				hint: tag.Get("hint"), min: tag.Get("min"), max: tag.Get("max"),
				items: tag.Get("items"), unique: tag.Get("unique") == "true",
			},
		}
		f.rule.defaultValue, f.rule.hasDefault = tag.Lookup("default")
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
