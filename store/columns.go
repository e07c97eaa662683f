package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// toNanos returns how a time is stored: in nanoseconds, or 0 for the zero time.
func toNanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// fromNanos returns the time that toNanos stored.
func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// toNullNanos returns how an optional time is stored: 0 for nil.
func toNullNanos(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return toNanos(*t)
}

// fromNullNanos returns the time that toNullNanos stored.
func fromNullNanos(n int64) *time.Time {
	if n == 0 {
		return nil
	}
	t := fromNanos(n)
	return &t
}

// boolToInt returns how a bool is stored.
func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// encode returns v as JSON. It is for types that JSON can represent.
func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(b), nil
}

// decode reads what encode returned.
func decode(s string, v any) error {
	if err := json.Unmarshal([]byte(s), v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

// sanitizeText removes what not every database can store: bytes that are not
// UTF-8, and NUL.
func sanitizeText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// byID and sortedByID are the same order. With the first, SQLite scans the
// whole table by its key. With the second it cannot, so it uses the index on
// the few live rows and sorts those.
const (
	byID       = ` ORDER BY id`
	sortedByID = ` ORDER BY id || ''`
)

// where collects the conditions of a query and their arguments. Conditions are
// constant texts of this package; values from callers are passed as arguments.
type where struct {
	conditions []string
	args       []any
}

// arg adds an argument and returns its name.
func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return fmt.Sprintf("$%d", len(w.args))
}

// add adds a condition that every row must meet.
func (w *where) add(condition string) { w.conditions = append(w.conditions, condition) }

// equal requires the value in the column, unless the value is empty. The second
// condition is the one of the partial indexes on such columns.
func (w *where) equal(column, value string) {
	if value != "" {
		w.add(column + " = " + w.arg(sanitizeText(value)))
		w.add(column + " <> ''")
	}
}

// oneOf requires one of the values in the column.
func oneOf[T ~string](w *where, column string, values []T) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = w.arg(sanitizeText(string(v)))
	}
	w.add(column + " IN (" + strings.Join(names, ", ") + ")")
}

// String returns the WHERE clause.
func (w *where) String() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// limit returns the LIMIT clause, empty for none.
func (w *where) limit(n int) string {
	if n <= 0 {
		return ""
	}
	return " LIMIT " + w.arg(n)
}
