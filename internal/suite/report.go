package main

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"slices"
	"time"
)

const (
	slowest     = 20 // tests that are listed
	maxReasons  = 30
	maxFailures = 60
)

// report prints what a run has cost and skipped.
func report(w io.Writer, c *collector) {
	packages := slices.Clone(c.packages)
	slices.SortFunc(packages, func(a, b packageOutcome) int { return cmp.Compare(b.Seconds, a.Seconds) })
	fprintf(w, "\nseconds of packages (%d, of which %d cached):", len(packages), cached(packages))
	for i, p := range packages {
		if p.Seconds < 1 {
			break
		}
		if i%6 == 0 {
			fprintf(w, "\n ")
		}
		fprintf(w, " %s %.0f", short(p.Package), p.Seconds)
	}
	fprintf(w, "\nslowest tests:\n")
	tests := slices.DeleteFunc(slices.Clone(c.tests), func(o outcome) bool { return !o.isTop() })
	slices.SortFunc(tests, func(a, b outcome) int { return cmp.Compare(b.Seconds, a.Seconds) })
	for _, o := range tests[:min(slowest, len(tests))] {
		fprintf(w, "%8.1f s  %s %s\n", o.Seconds, short(o.Package), o.Test)
	}
	reportSkips(w, c.tests)
}

func cached(packages []packageOutcome) int {
	n := 0
	for _, p := range packages {
		if p.Cached {
			n++
		}
	}
	return n
}

func reportSkips(w io.Writer, tests []outcome) {
	reasons := map[string]int{}
	for _, o := range tests {
		if o.Action == "skip" {
			reasons[o.Reason]++
		}
	}
	if len(reasons) == 0 {
		return
	}
	all := make([]string, 0, len(reasons))
	for text := range reasons {
		all = append(all, text)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], cmp.Compare(a, b)) })
	fprintf(w, "skipped:\n")
	for _, text := range all[:min(maxReasons, len(all))] {
		fprintf(w, "%8d  %.200s\n", reasons[text], text)
	}
	if more := len(all) - maxReasons; more > 0 {
		fprintf(w, "          and %d other reasons\n", more)
	}
}

// conclude prints the failures and the counts, and reports whether the run has
// passed.
func conclude(w io.Writer, c *collector, expected skipList) bool {
	failures := slices.Clone(c.broken)
	for _, o := range c.tests {
		if o.Action == "fail" {
			failures = append(failures, short(o.Package)+" "+o.Test)
		}
	}
	failures = append(failures, expected.missing(c.tests)...)
	if len(failures) == 0 && len(c.tests) == 0 && expected == nil {
		failures = append(failures, "no test was run")
	}
	for _, name := range c.flaky {
		fprintf(w, "FLAKY %s\n", name)
	}
	for _, text := range failures[:min(maxFailures, len(failures))] {
		fprintf(w, "FAILED: %.400s\n", text)
	}
	failed := count(c.tests, "fail")
	if failed == 0 {
		failed = len(failures)
	}
	fprintf(w, "tests: %d passed, %d failed, %d skipped\n", count(c.tests, "pass"), failed, count(c.tests, "skip"))
	return len(failures) == 0
}

// summary is the counts of the runs of a part.
type summary struct {
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Names   []string `json:"failures,omitempty"`
	Flaky   []string `json:"flaky,omitempty"`
	Seconds int      `json:"seconds"`
}

// addSummary adds the counts of a run to those of a file.
func addSummary(name string, c *collector, took time.Duration) error {
	var s summary
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	s.Passed += count(c.tests, "pass")
	s.Failed += count(c.tests, "fail") + len(c.broken)
	s.Flaky = append(s.Flaky, c.flaky...)
	s.Seconds += int(took.Seconds())
	for _, o := range c.tests {
		if o.Action == "fail" && len(s.Names) < slowest {
			s.Names = append(s.Names, short(o.Package)+" "+o.Test)
		}
	}
	if text, err = json.Marshal(s); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}
