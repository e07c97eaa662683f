package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/hostler/hostler/hooks"
)

// revisionLen is the length of a revision, in hexadecimal digits. It tells the
// revisions of one workload apart, of which there are few.
const revisionLen = 12

// revision hashes what w means, so that comments, order and spelling in the
// file make no difference.
func revision(w *Workload) string {
	hashed := *w
	hashed.Name, hashed.Pool, hashed.Revision, hashed.Source = "", Pool{}, "", nil
	text, err := json.Marshal(canonical(reflect.ValueOf(hashed)))
	if err != nil {
		panic(fmt.Sprintf("workload: a canonical form is not JSON: %v", err)) // it is made of text, numbers, maps and lists
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:revisionLen]
}

// canonical is v as JSON writes it with sorted keys. Fields that are zero are
// left out, so that a field which a later version adds changes no revision.
func canonical(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		return canonical(v.Elem())
	case reflect.Interface:
		out := map[string]any{"value": canonical(v.Elem())}
		if action, ok := v.Interface().(hooks.Action); ok {
			out["kind"] = action.Kind()
		}
		return out
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			if field := v.Field(i); !isUnset(field) {
				out[v.Type().Field(i).Name] = canonical(field)
			}
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for key, value := range v.Seq2() {
			out[key.String()] = canonical(value)
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = canonical(v.Index(i))
		}
		return out
	}
	if d, ok := v.Interface().(time.Duration); ok {
		return d.String()
	}
	return v.Interface()
}

// isUnset says whether a field means what its absence means.
func isUnset(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Map || k == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}
