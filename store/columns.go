package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// toNanos is how a time is stored: 0 for none.
func toNanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// fromNanos is the time that nanos stored.
func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// toNullNanos stores a time that there may be none of.
func toNullNanos(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return toNanos(*t)
}

// fromNullNanos is the time that maybe stored.
func fromNullNanos(n int64) *time.Time {
	if n == 0 {
		return nil
	}
	t := fromNanos(n)
	return &t
}

// boolToInt is how a truth is stored.
func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// encode stores an object of ours, made of what JSON can hold.
func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(b), nil
}

// decode reads what encode stored.
func decode(s string, v any) error {
	if err := json.Unmarshal([]byte(s), v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

// sanitizeText takes out of a text what not every database can keep: bytes that are
// no UTF-8, and NUL.
func sanitizeText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// byID and sortedByID are the same order. With the first, SQLite walks the whole
// table by its key; with the second it cannot, takes the index on the few rows
// that are live, and sorts those.
const (
	byID       = ` ORDER BY id`
	sortedByID = ` ORDER BY id || ''`
)

// where gathers the conditions of a query and their arguments. Conditions are
// texts of ours; whatever a caller gives goes into the arguments.
type where struct {
	conditions []string
	args       []any
}

// arg adds an argument and returns its name.
func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return fmt.Sprintf("$%d", len(w.args))
}

// add adds a condition that holds for every row.
func (w *where) add(condition string) { w.conditions = append(w.conditions, condition) }

// equal asks for rows with the value in the column, if it is not empty. The
// second condition is the one of the partial indexes on such columns.
func (w *where) equal(column, value string) {
	if value != "" {
		w.add(column + " = " + w.arg(sanitizeText(value)))
		w.add(column + " <> ''")
	}
}

// oneOf asks for rows with one of the values in the column.
func oneOf[T ~string](w *where, column string, values []T) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = w.arg(sanitizeText(string(v)))
	}
	w.add(column + " IN (" + strings.Join(names, ", ") + ")")
}

// String is the WHERE clause.
func (w *where) String() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// limit is the LIMIT clause, empty for none.
func (w *where) limit(n int) string {
	if n <= 0 {
		return ""
	}
	return " LIMIT " + w.arg(n)
}
