package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// beyond requires the ids that come after one in the order of a list.
func (w *where) beyond(id string, newest bool) {
	comparison := map[bool]string{false: "id > ", true: "id < "}[newest]
	if id != "" {
		w.add(comparison + w.arg(sanitizeText(id)))
	}
}

// idPart requires ids that begin or end with a text. The end is not a substring from
// a negative place, which PostgreSQL does not have.
func (w *where) idPart(part string) {
	if part == "" {
		return
	}
	n, value := utf8.RuneCountInString(part), w.arg(sanitizeText(part))
	w.add(fmt.Sprintf("(substr(id, 1, %d) = %s OR substr(id, length(id) - %d) = %s)", n, value, n-1, value))
}

// ordered returns an order, or with newest its reverse.
func ordered(order string, newest bool) string {
	if !newest {
		return order
	}
	return strings.ReplaceAll(order, ",", " DESC,") + " DESC"
}
