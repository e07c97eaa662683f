package activity

import (
	"reflect"
	"slices"
	"testing"
)

// Every type has a row in the table of data, also one without data.
func TestEveryTypeHasItsData(t *testing.T) {
	for _, typ := range Types() {
		if _, ok := newData[typ]; !ok {
			t.Errorf("%s has no row in newData", typ)
		}
	}
	if len(newData) != len(Types()) {
		t.Errorf("newData has %d rows, want %d", len(newData), len(Types()))
	}
}

// The data of an event is written with its fields in the order of their names,
// each with a name in JSON.
func TestDataFieldsAreOrdered(t *testing.T) {
	for _, typ := range Types() {
		data := NewData(typ)
		if data == nil {
			continue
		}
		var names []string
		for field := range reflect.TypeOf(data).Elem().Fields() {
			name := field.Tag.Get("json")
			if name == "" {
				t.Errorf("%s: field %s has no name", typ, field.Name)
			}
			names = append(names, name)
		}
		if !slices.IsSorted(names) {
			t.Errorf("%s: fields are not in order: %v", typ, names)
		}
	}
}
