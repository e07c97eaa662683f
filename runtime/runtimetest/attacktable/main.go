// Command attacktable prints as Markdown the results of the attacks of hostile
// tenants: the files that the group hostile of package runtimetest has written
// to HOSTILE_OUT.
//
//	attacktable FILE...
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// row is one attack on containers of one variant.
type row struct {
	Attack, Class, Text, User, Root, Backend, Result, Detail string
}

func main() {
	rows, err := read(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "attacktable:", err)
		os.Exit(1)
	}
	write(os.Stdout, rows)
}

func read(files []string) ([]row, error) {
	var all []row
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var rows []row
		if err := json.Unmarshal(b, &rows); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

// distinct returns the values of a field, in the order in which they occur.
func distinct(rows []row, field func(row) string) []string {
	var all []string
	for _, r := range rows {
		if value := field(r); !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

func class(r row) string   { return r.Class }
func attack(r row) string  { return r.Attack }
func backend(r row) string { return r.Backend }
func variant(r row) string { return r.Backend + ", " + r.User + ", " + r.Root }

// write prints the counts, and a table for each class.
func write(w io.Writer, rows []row) {
	variants := distinct(rows, variant)
	writeCounts(w, "backend, user, root filesystem", rows, variants, variant)
	writeCounts(w, "class", rows, distinct(rows, class), class)
	for _, c := range distinct(rows, class) {
		fmt.Fprintf(w, "\n### %s\n\n| attack | what it does | %s |\n|---|---|%s\n",
			strings.ToUpper(c[:1])+c[1:], strings.Join(distinct(rows, backend), " | "), strings.Repeat("---|", len(distinct(rows, backend))))
		in := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Class != c })
		for _, name := range distinct(in, attack) {
			of := slices.DeleteFunc(slices.Clone(in), func(r row) bool { return r.Attack != name })
			fmt.Fprintf(w, "| `%s` | %s |", name, of[0].Text)
			for _, b := range distinct(rows, backend) {
				fmt.Fprintf(w, " %s |", results(of, b))
			}
			fmt.Fprintln(w)
		}
	}
}

// results returns those of one attack on one backend, a letter for each variant.
func results(rows []row, of string) string {
	var all []string
	for _, result := range []string{"held", "tainted", "listed", "REACHED"} {
		var variants []string
		for _, r := range rows {
			if r.Backend == of && r.Result == result {
				variants = append(variants, r.User[:1]+strings.ToUpper(r.Root[:1]))
			}
		}
		if len(variants) > 0 {
			all = append(all, result+" "+strings.Join(variants, " "))
		}
	}
	return strings.Join(all, ", ")
}

func writeCounts(w io.Writer, title string, rows []row, of []string, field func(row) string) {
	fmt.Fprintf(w, "\n| %s | attacks | held | tainted | listed | REACHED |\n|---|---|---|---|---|---|\n", title)
	total := make(map[string]int)
	for _, value := range append(of, "") {
		counts := make(map[string]int)
		for _, r := range rows {
			if field(r) == value {
				counts[r.Result]++
				total[r.Result]++
			}
		}
		if value == "" {
			value, counts = "all", total
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d |\n", value,
			counts["held"]+counts["tainted"]+counts["listed"]+counts["REACHED"], counts["held"], counts["tainted"], counts["listed"], counts["REACHED"])
	}
}
