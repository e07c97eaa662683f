package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// columns lists the columns of a table, and the field of a record T that each
// holds. Every statement that reads or writes whole records follows from the
// list. A new column is a new entry and a migration.
type columns[T any] []column[T]

type column[T any] struct {
	name string
	// field returns the field as a pointer that Scan and argument accept.
	field func(*T) any
	use   use
	// expr is the expression that a computed column reads, or that INSERT
	// writes instead of the field. In the latter, $NAME stands for the field of
	// that column.
	expr string
}

// use is which statements use a column.
type use int

const (
	mutable   use = iota // read, inserted and updated
	immutable            // read and inserted
	key                  // read and inserted, and an update finds the row by it
	computed             // an expression that is read
)

// statement is the text of a statement and the fields that are its arguments.
type statement[T any] struct {
	text   string
	fields []func(*T) any
}

// names returns the columns as a query reads them. The constants replace
// columns that the query does not need.
func (c columns[T]) names(constants map[string]string) string {
	names := make([]string, len(c))
	for i, column := range c {
		names[i] = column.name
		if column.use == computed {
			names[i] = column.expr
		}
		if value, ok := constants[column.name]; ok {
			names[i] = value
		}
	}
	return strings.Join(names, ", ")
}

// insert returns the statement that inserts a record. Further columns are those
// whose values are not in a record; they are its last arguments.
func (c columns[T]) insert(table string, further ...string) statement[T] {
	var s statement[T]
	var names, values []string
	number := map[string]string{}
	for _, column := range c {
		if column.use != computed {
			s.fields = append(s.fields, column.field)
			number[column.name] = strconv.Itoa(len(s.fields))
		}
	}
	for _, column := range c {
		if column.use == computed {
			continue
		}
		value := "$" + number[column.name]
		if column.expr != "" {
			value = os.Expand(column.expr, func(name string) string { return "$" + number[name] })
		}
		names, values = append(names, column.name), append(values, value)
	}
	for i, name := range further {
		names, values = append(names, name), append(values, "$"+strconv.Itoa(len(s.fields)+1+i))
	}
	s.text = "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
	return s
}

// upsert returns the statement that inserts a record, or writes the mutable
// columns of the one that exists.
func (c columns[T]) upsert(table string) statement[T] {
	var keys, sets []string
	for _, column := range c {
		switch column.use {
		case key:
			keys = append(keys, column.name)
		case mutable:
			sets = append(sets, column.name+" = excluded."+column.name)
		}
	}
	s := c.insert(table)
	s.text += " ON CONFLICT (" + strings.Join(keys, ", ") + ") DO UPDATE SET " + strings.Join(sets, ", ")
	return s
}

// update returns the statement that writes the mutable columns of a record.
func (c columns[T]) update(table string, further ...string) statement[T] {
	var s statement[T]
	var keys, sets []string
	add := func(list *[]string, name string) {
		*list = append(*list, name+" = $"+strconv.Itoa(len(keys)+len(sets)+1))
	}
	for _, column := range c {
		if column.use == key {
			add(&keys, column.name)
			s.fields = append(s.fields, column.field)
		}
	}
	for _, column := range c {
		if column.use == mutable {
			add(&sets, column.name)
			s.fields = append(s.fields, column.field)
		}
	}
	for _, name := range further {
		add(&sets, name)
	}
	s.text = "UPDATE " + table + " SET " + strings.Join(sets, ", ") + " WHERE " + strings.Join(keys, " AND ")
	return s
}

// scan reads a row of the columns.
func (c columns[T]) scan(r row) (record T, err error) {
	targets := make([]any, len(c))
	for i := range c {
		targets[i] = c[i].field(&record)
	}
	err = r.Scan(targets...)
	return record, err
}

// args returns the arguments of the statement for a record, and then the values
// of the further columns.
func (s statement[T]) args(record *T, further ...any) ([]any, error) {
	args := make([]any, 0, len(s.fields)+len(further))
	for _, field := range s.fields {
		v, err := argument(field(record))
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return append(args, further...), nil
}

// execLater runs the statement for a record.
func execLater[T any](t *tx, s statement[T], record *T, further ...any) error {
	args, err := s.args(record, further...)
	if err != nil {
		return err
	}
	return t.execLater(s.text, args...)
}

// argument returns the value of a field as an argument of a statement.
func argument(field any) (any, error) {
	switch f := field.(type) {
	case *string:
		return *f, nil
	case *int:
		return *f, nil
	case *int64:
		return *f, nil
	case *float64:
		return *f, nil
	case *[]byte:
		return *f, nil
	case **int:
		if *f == nil {
			return nil, nil
		}
		return **f, nil
	case driver.Valuer:
		return f.Value()
	}
	return nil, fmt.Errorf("a field of type %T cannot be stored", field)
}

// nanos stores a time in nanoseconds, and the zero time as 0.
type nanos time.Time

// Scan implements sql.Scanner.
func (n *nanos) Scan(v any) error {
	i, err := integer(v)
	*n = nanos(fromNanos(i))
	return err
}

// Value implements driver.Valuer.
func (n *nanos) Value() (driver.Value, error) { return toNanos(time.Time(*n)), nil }

// nullNanos stores an optional time as nanos does, and nil as 0.
type nullNanos struct{ at **time.Time }

// Scan implements sql.Scanner.
func (n nullNanos) Scan(v any) error {
	i, err := integer(v)
	*n.at = fromNullNanos(i)
	return err
}

// Value implements driver.Valuer.
func (n nullNanos) Value() (driver.Value, error) { return toNullNanos(*n.at), nil }

// flag stores a bool as 0 or 1.
type flag bool

// Scan implements sql.Scanner.
func (f *flag) Scan(v any) error {
	i, err := integer(v)
	*f = i == 1
	return err
}

// Value implements driver.Valuer.
func (f *flag) Value() (driver.Value, error) { return int64(boolToInt(bool(*f))), nil }

// text stores what comes from outside and may not be storable as it is.
type text string

// Scan implements sql.Scanner.
func (t *text) Scan(v any) error {
	s, err := str(v)
	*t = text(s)
	return err
}

// Value implements driver.Valuer.
func (t *text) Value() (driver.Value, error) { return sanitizeText(string(*t)), nil }

// object stores a value as JSON.
type object[V any] struct{ v *V }

// Scan implements sql.Scanner.
func (o object[V]) Scan(v any) error {
	s, err := str(v)
	if err != nil {
		return err
	}
	return decode(s, o.v)
}

// Value implements driver.Valuer.
func (o object[V]) Value() (driver.Value, error) { return encode(*o.v) }

// rawObject stores JSON that is already encoded, and none as "".
type rawObject json.RawMessage

// Scan implements sql.Scanner.
func (o *rawObject) Scan(v any) error {
	s, err := str(v)
	*o = nil
	if s != "" {
		*o = rawObject(s)
	}
	return err
}

// Value implements driver.Valuer.
func (o *rawObject) Value() (driver.Value, error) { return string(*o), nil }

// pairs stores names with values as JSON, and none as "".
type pairs map[string]string

// Scan implements sql.Scanner.
func (p *pairs) Scan(v any) error {
	s, err := str(v)
	*p = nil
	if err != nil || s == "" {
		return err
	}
	return decode(s, p)
}

// Value implements driver.Valuer.
func (p *pairs) Value() (driver.Value, error) {
	if len(*p) == 0 {
		return "", nil
	}
	return encode(*p)
}

// list stores texts as JSON, and none as "".
type list []string

// Scan implements sql.Scanner.
func (l *list) Scan(v any) error {
	s, err := str(v)
	*l = nil
	if err != nil || s == "" {
		return err
	}
	return decode(s, l)
}

// Value implements driver.Valuer.
func (l *list) Value() (driver.Value, error) {
	if len(*l) == 0 {
		return "", nil
	}
	return encode(*l)
}

func integer(v any) (int64, error) {
	i, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("a %T is stored where an integer belongs", v)
	}
	return i, nil
}

func str(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("a %T is stored where a text belongs", v)
	}
	return s, nil
}
