// Command mutants makes one change of the program at a time that makes it wrong,
// and runs the unit test that has to fail with it. Its rows are of those checks
// whose loss would be silent: a user of the program would see no difference, but
// a tenant would have the data, the rights or the secrets of another one. No file
// of the tree is changed.
//
//	mutants [PATTERN]
//
// PATTERN is a regular expression that matches the file or the description of a
// change; without it all changes are made. The command fails when a test passed
// with its change, or when a change could not be made: its text is not in its
// file, or the program does not build with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
)

// mutation is one incorrect change of the program.
type mutation struct {
	desc string // what is wrong then
	file string
	old  string // occurs once in file
	new  string
	test string // the test that fails with it
	pkg  string // the package of the test, if it differs from the file's
}

// rows are all changes.
func rows() []mutation { return slices.Concat(wipes, fences, credentials, secrets) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pattern := ""
	if len(os.Args) > 1 {
		pattern = os.Args[1]
	}
	if err := run(ctx, pattern); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run makes the changes that pattern matches, and prints what became of each.
func run(ctx context.Context, pattern string) error {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	made, unnoticed := 0, 0
	for _, m := range rows() {
		if !match.MatchString(m.file + " " + m.desc) {
			continue
		}
		err := try(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		made++
		if err != nil {
			unnoticed++
			fmt.Printf("FAIL %s: %s: %v\n", m.file, m.desc, err)
			continue
		}
		fmt.Printf("ok   %s: %s: %s\n", m.file, m.desc, m.test)
	}
	fmt.Printf("%d changes, %d not noticed or not made\n", made, unnoticed)
	if made == 0 || unnoticed > 0 {
		return errors.New("not every change was made and noticed")
	}
	return nil
}
