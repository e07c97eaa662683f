// Command suite runs go test and reports the results: a line for each
// package with its seconds, failures as they happen, and at the end the slowest
// tests, the skipped ones with their reasons, and the failures again. Only
// .ci/run and the Makefile start it.
//
//	suite run [flags] [go test flags and packages]
//	suite times                 set the times of the tree's files by their content
//	suite due PART PATHS        whether a path has changed since PART last passed
//	suite record PART SUMMARY   add a line to .ci/ledger.jsonl
//	suite ledger                print the age of each part, and what is open
//
// The suite has two passes. The first one runs without an engine in reach and
// writes what it skipped (-skipped FILE). The second one (-only FILE) runs just
// that, with engines, and fails if a test is skipped again.
package main

import (
	"errors"
	"fmt"
	"os"
)

// commands are the commands by their names.
var commands = map[string]func(args []string) error{
	"run":    runCommand,
	"times":  timesCommand,
	"due":    dueCommand,
	"record": recordCommand,
	"ledger": ledgerCommand,
}

// errNo is the outcome of a command that has printed why it fails.
var errNo = errors.New("no")

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: suite run|times|due|record|ledger [ARGUMENTS]")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		if !errors.Is(err, errNo) {
			fmt.Fprintln(os.Stderr, "suite:", err)
		}
		os.Exit(1)
	}
}
