package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ledgerFile has a line for each part of the full suite that was run. It is in
// the tree, so that it depends on no build server; Git merges it by union.
const ledgerFile = ".ci/ledger.jsonl"

// parts are the parts of the full suite.
var parts = []string{"1", "2", "3", "4"}

// maxAge and maxCommits are the age from which the ledger warns about a part:
// ten runs of the gate or a week.
const (
	maxAge     = 7 * 24 * time.Hour
	maxCommits = 300 // ten changes of about thirty commits
)

// entry is a line of the ledger.
type entry struct {
	Commit  string    `json:"commit"`
	Date    time.Time `json:"date"`
	Part    string    `json:"part"`
	Machine string    `json:"machine"` // cold or warm: with what was built before
	summary
	// Issue is where the failures are being fixed.
	Issue string `json:"issue,omitempty"`
}

func readLedger() ([]entry, error) {
	text, err := os.ReadFile(ledgerFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []entry
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", ledgerFile, i+1, err)
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.Date.Compare(b.Date) })
	return all, nil
}

// last returns the latest entry of a part that want accepts.
func last(all []entry, part string, want func(entry) bool) (entry, bool) {
	for _, e := range slices.Backward(all) {
		if e.Part == part && want(e) {
			return e, true
		}
	}
	return entry{}, false
}

func passed(e entry) bool { return e.Failed == 0 }

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	return strings.TrimSpace(string(out)), err
}

// dueCommand fails if nothing below the paths has changed since the part last
// passed, so that what checks them is left to the next full run. BASE names
// another commit to compare with.
func dueCommand(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: suite due PART PATHS")
	}
	all, err := readLedger()
	if err != nil {
		return err
	}
	e, found := last(all, args[0], passed)
	base := cmp.Or(os.Getenv("BASE"), e.Commit)
	if !found && base == "" {
		return nil
	}
	if err := exec.Command("git", append([]string{"diff", "--quiet", base, "HEAD", "--"}, args[1:]...)...).Run(); err != nil {
		return nil // it differs, or the commit is not in this clone
	}
	return errNo
}

// recordCommand adds a line to the ledger, of a part whose counts suite run has
// written to a file.
func recordCommand(args []string) error {
	if len(args) != 4 || !slices.Contains(parts, args[0]) {
		return errors.New("usage: suite record PART SUMMARY cold|warm FAILED-STEPS")
	}
	e := entry{Part: args[0], Machine: args[2], Date: time.Now().UTC().Truncate(time.Second)}
	text, err := os.ReadFile(args[1])
	if err == nil {
		err = json.Unmarshal(text, &e.summary)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) { // no run of tests has ended
		return err
	}
	if args[3] != "" { // a step may fail without a test
		e.Failed = max(e.Failed, 1)
		e.Names = append(e.Names, strings.Split(args[3], ", ")...)
	}
	if e.Commit, err = git("rev-parse", "--short=12", "HEAD"); err != nil {
		return err
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(ledgerFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // it is committed
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func ledgerCommand([]string) error {
	all, err := readLedger()
	if err != nil {
		return err
	}
	printLedger(os.Stdout, all, time.Now(), func(commit string) (int, error) {
		out, err := git("rev-list", "--count", commit+"..HEAD")
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(out)
	})
	return nil
}

// printLedger prints the age of each part and what is open. It warns, and
// refuses nothing.
func printLedger(w io.Writer, all []entry, now time.Time, commitsSince func(string) (int, error)) {
	for _, part := range parts {
		e, found := last(all, part, func(entry) bool { return true })
		if !found {
			fprintf(w, "WARNING: full suite, part %s: never run (make test-full PART=%s)\n", part, part)
			continue
		}
		commits, err := commitsSince(e.Commit)
		age := now.Sub(e.Date)
		warning := ""
		if err != nil || age > maxAge || commits > maxCommits {
			warning = "WARNING: "
		}
		fprintf(w, "%sfull suite, part %s: %d days and %d commits ago at %s: %d passed, %d failed, %d s (%s)\n",
			warning, part, int(age.Hours()/24), commits, e.Commit, e.Passed, e.Failed, e.Seconds, e.Machine)
		if e.Failed > 0 && e.Issue == "" {
			fprintf(w, "WARNING: open failures of part %s, without an issue: %s\n", part, strings.Join(e.Names, ", "))
		}
	}
}
