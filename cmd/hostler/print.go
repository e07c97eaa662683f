package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gopkg.in/yaml.v3"
)

// printResult writes v in the format of the flags; table writes it for people. On a
// terminal, all of it is sanitized: JSON and YAML leave some control characters as
// they are.
func (r *remote) printResult(w io.Writer, v any, table func(io.Writer) error) error {
	safe := sanitizeFor(w, isTerminal(w))
	switch r.output {
	case "json":
		e := json.NewEncoder(safe)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return errors.Join(e.Encode(v), safe.Close())
	case "yaml":
		return errors.Join(printYAML(safe, v), safe.Close())
	}
	if r.output == "name" {
		return printNames(w, v)
	}
	return table(w)
}

// printNames writes the id of an object, or those of a list, each on a line.
func printNames(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print the response: %w", err)
	}
	type object struct {
		ID       string `json:"id"`
		Workload string `json:"workload"` // whose pool it is
	}
	var all []object
	if text[0] != '[' {
		text = slices.Concat([]byte{'['}, text, []byte{']'})
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("print the response: %w", err)
	}
	last := ""
	for _, o := range all {
		id := firstOf(o.ID, o.Workload)
		if id == last { // attempts of one hook run
			continue
		}
		last = id
		if _, err := fmt.Fprintln(w, sanitize(id)); err != nil {
			return err
		}
	}
	return nil
}

// printYAML writes v with the names and in the order of its JSON.
func printYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print the response: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return fmt.Errorf("print the response: %w", err)
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return e.Encode(node)
}

// yamlNode returns the next value of a JSON text. JSON is not parsed as YAML, which
// refuses some of it: surrogates, long names and some characters, all of which
// tenants may choose.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if t == '{' { // its tokens are names and values in turn
			n.Kind = yaml.MappingNode
		}
		for d.More() {
			part, err := yamlNode(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, part)
		}
		_, err := d.Token()
		return n, err
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t}
		if t == "<<" { // else a reader merges objects
			n.Style = yaml.DoubleQuotedStyle
		}
		return n, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}, nil // a number, true or false
}

// writeTable writes rows below a header, in columns. On a terminal, long texts are
// cut; ids and other words are not.
func writeTable(w io.Writer, header string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, strings.Join(strings.Fields(header), "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = sanitize(cell)
			if strings.Contains(cell, " ") {
				row[i] = fitted(w, row[i])
			}
			if cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// timestamp formats a time in the local time zone.
func timestamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// oneLine returns a text as one line.
func oneLine(s string) string { return sanitize(strings.Join(strings.Fields(s), " ")) }

// fitted cuts a line that is long for a terminal. Files and pipes get all of it.
func fitted(w io.Writer, line string) string {
	if isTerminal(w) {
		return shortened(line)
	}
	return line
}

// shortened cuts a long line.
func shortened(line string) string {
	const width = 80
	if runes := []rune(line); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}
