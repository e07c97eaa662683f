package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"gopkg.in/yaml.v3"
)

// printResult writes v in the format of the flags; table writes it for people.
func (r *remote) printResult(w io.Writer, v any, table func(io.Writer) error) error {
	switch r.output {
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "yaml":
		return printYAML(w, v)
	}
	return table(w)
}

// printYAML writes v with the names and in the order of its JSON.
func printYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print the response: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return fmt.Errorf("print the response: %w", err)
	}
	toBlockStyle(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return e.Encode(&node)
}

// toBlockStyle replaces the flow style, which JSON is in, with block style.
func toBlockStyle(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		toBlockStyle(c)
	}
}

// writeTable writes rows below a header, in columns.
func writeTable(w io.Writer, header string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, strings.Join(strings.Fields(header), "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = sanitize(cell)
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

// oneLine returns a text as one line that fits into a table cell.
func oneLine(s string) string {
	const width = 80
	line := []rune(sanitize(strings.Join(strings.Fields(s), " ")))
	if len(line) > width {
		return string(line[:width-1]) + "…"
	}
	return string(line)
}
