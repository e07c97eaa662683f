package api

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Page is one part of a list.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next" doc:"The value of after for the next page; empty at the end."`
}

// Paging are the parameters that all lists share.
type Paging struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of items."`
	After string `query:"after" maxLength:"200" doc:"The value of next of the previous page."`
}

// Selection are the parameters of lists that may be long.
type Selection struct {
	IDPart string `query:"id" minLength:"4" maxLength:"36" doc:"Only ids that begin or end with it, of the states that are listed."`
	Order  string `query:"order" enum:"asc,desc" doc:"desc: the newest first. Default: asc."`
}

func (s Selection) isNewest() bool { return s.Order == "desc" }

// pageOf returns a page of a list that was read with one item more than the
// limit.
func pageOf[T any](items []T, limit int, id func(T) string) *Page[T] {
	p := &Page[T]{Items: items}
	if p.Items == nil {
		p.Items = []T{}
	}
	if len(items) > limit {
		p.Items = items[:limit]
		p.Next = id(items[limit-1])
	}
	return p
}

// pageOfAll returns a page of a complete, unordered list.
func pageOfAll[T any](items []T, q Paging, id func(T) string) *Page[T] {
	items = slices.DeleteFunc(slices.Clone(items), func(t T) bool { return id(t) <= q.After })
	slices.SortFunc(items, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	return pageOf(items, q.Limit, id)
}

// states parses a filter of states, repeated or as a list with commas.
func states[S ~string](given []string, known []S) ([]S, error) {
	var out []S
	for _, word := range splitList(given) {
		s := S(word)
		if !slices.Contains(known, s) {
			return nil, invalidf("query.state: %q is not one of %v", word, known)
		}
		out = append(out, s)
	}
	return out, nil
}

// splitList splits lists with commas.
func splitList(given []string) []string {
	var out []string
	for _, g := range given {
		for word := range strings.SplitSeq(g, ",") {
			if word = strings.TrimSpace(word); word != "" {
				out = append(out, word)
			}
		}
	}
	return out
}

// Duration is written as "500ms", "10s" or "5m", or as a number of
// milliseconds. What is neither is refused by Resolve: it knows the field.
type Duration struct {
	time.Duration
	invalid string // what was written instead
}

// UnmarshalJSON reads either form.
func (d *Duration) UnmarshalJSON(b []byte) (err error) {
	*d = Duration{}
	var text string
	if json.Unmarshal(b, &text) == nil {
		if d.Duration, err = time.ParseDuration(text); err != nil {
			d.invalid = strconv.Quote(text)
		}
		return nil
	}
	var ms int64
	if json.Unmarshal(b, &ms) != nil {
		d.invalid = string(b)
	}
	// Durations are limited, so that the product does not overflow.
	const maxMS = int64(maxDuration / time.Millisecond)
	d.Duration = time.Duration(min(max(ms, -maxMS), maxMS)) * time.Millisecond
	return nil
}

// durationForms is how a duration is written.
const durationForms = "is not a duration: write it as 500ms, 10s or 5m, or as a whole number of milliseconds"

// Resolve implements huma.ResolverWithPath.
func (d *Duration) Resolve(_ huma.Context, field *huma.PathBuffer) []error {
	if d.invalid == "" {
		return nil
	}
	return []error{&huma.ErrorDetail{Location: field.String(), Message: d.invalid + " " + durationForms}}
}

// MarshalJSON writes the first form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// Schema describes both forms.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "A duration such as 500ms, 10s or 5m, or a number of milliseconds.",
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeInteger}},
		Examples:    []any{"10s"},
	}
}
