// Command mutants changes the program in one place at a time and runs the unit
// test that notices: a change that no test notices is a promise that no test
// holds. The changes are the tables of this package. No file of the tree is
// changed.
//
//	mutants [-l] [PATTERN]
//
// PATTERN is a regular expression that the table's title, the file or the text
// of a change matches; without it all are made. What became of each is printed
// as Markdown; -l prints the tables and runs nothing. It fails when a change was
// not noticed, or could not be made: its text is not in its file any more, or the
// program does not build with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
)

// mutation is one change of the program.
type mutation struct {
	desc string // for people: what is wrong with it
	file string
	old  string // occurs once in file
	new  string
	pkg  string // the package of the test, where it is another than the file's
	test string // that notices it; empty: all of the package are run
	// equivalent is why the program does the same with the change, so that no test can
	// notice it.
	equivalent string
}

// group is a table of mutations.
type group struct {
	title string
	list  []mutation
}

// groups are all there are.
var groups = []group{
	{"The flows: the order and the effect of their steps", steps},
	{"claim", claims},
	{"release", releases},
	{"pool", pools},
	{"hooks", hookRuns},
	{"The program in containers, and sessions with it", shims},
}

func main() {
	list := flag.Bool("l", false, "print the tables and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	apply := try
	if *list {
		apply = func(_ context.Context, m mutation) result { return result{test: m.test} }
	}
	if err := run(ctx, flag.Arg(0), apply); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// errUnexpected is that not all is well with the tests, or with the tables.
var errUnexpected = errors.New("not every change could be made and was noticed")

func run(ctx context.Context, pattern string, apply func(context.Context, mutation) result) error {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	total, unexpected := 0, 0
	for _, g := range groups {
		list := slices.DeleteFunc(slices.Clone(g.list), func(m mutation) bool {
			return !match.MatchString(g.title + " " + m.file + " " + m.desc)
		})
		if len(list) == 0 {
			continue
		}
		fmt.Printf("\n## %s\n\n| file | what is changed | the test that notices it |\n|---|---|---|\n", g.title)
		for _, m := range list {
			r := apply(ctx, m)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			total++
			if !r.isExpected(m) {
				unexpected++
			}
			fmt.Printf("| `%s` | %s | %s |\n", m.file, m.desc, r.text(m))
		}
	}
	fmt.Printf("\n%d changes, %d of them not as they should be\n", total, unexpected)
	if unexpected > 0 {
		return errUnexpected
	}
	return nil
}
