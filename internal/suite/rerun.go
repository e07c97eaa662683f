package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxReruns is how many tests of a run may fail and be run again. If more do,
// the reason is not chance.
const maxReruns = 2

// neverExcused matches the names of tests that are never run again: each of them
// looks for what happens rarely, so that one failure is the finding.
var neverExcused = regexp.MustCompile(`(?i)race|racing|crash|kill|attack|hostile|fenc|leak|stress`)

// neverChance matches the output of a failure that is never run again, whatever
// the test: another run would only not show it.
var neverChance = regexp.MustCompile(`DATA RACE|race detected|(?m:^(panic|fatal error):)|goroutine \d+ \[|(?i:deadlock|leak)`)

// isExcusable reports whether a test that failed may be run again.
func isExcusable(o outcome) bool {
	return !neverExcused.MatchString(o.Test) && o.Output != noEnd && !neverChance.MatchString(o.Output)
}

// reruns returns the tests that failed and are to be run again: all or none, and
// of a test with subtests those that failed.
func (c *collector) reruns() []outcome {
	if len(c.broken) > 0 {
		return nil
	}
	var all []outcome
	for _, o := range c.tests {
		if o.Action != "fail" {
			continue
		}
		if !isExcusable(o) {
			return nil
		}
		if !slices.ContainsFunc(c.tests, func(p outcome) bool { return p.Action == "fail" && p.isBelow(o) }) {
			all = append(all, o)
		}
	}
	if len(all) > maxReruns {
		return nil
	}
	return all
}

// isBelow reports whether the test is a subtest of another.
func (o outcome) isBelow(parent outcome) bool {
	return o.Package == parent.Package && strings.HasPrefix(o.Test, parent.Test+"/")
}

// rerun runs the tests that failed once more, one at a time. One that passes
// then is flaky: it and the tests that it is part of have passed.
func (c *collector) rerun(ctx context.Context, o options) error {
	for _, failed := range c.reruns() {
		fmt.Printf("again: %s %s\n", short(failed.Package), failed.Test)
		again := newCollector(c.print)
		list := skipList{failed.Package: {failed.Test: ""}}
		command := append(goTest(o), "-count=1", "-parallel=1", "-run="+list.pattern(failed.Package), failed.Package)
		if err := again.follow(ctx, o, command); err != nil {
			return err
		}
		if conclude(c.print, again, nil) && slices.ContainsFunc(again.tests, func(o outcome) bool { return o.Test == failed.Test && o.Action == "pass" }) {
			c.excuse(failed)
		}
	}
	return nil
}

// excuse records that a test is flaky.
func (c *collector) excuse(flaky outcome) {
	c.flaky = append(c.flaky, short(flaky.Package)+" "+flaky.Test)
	remains := func(parent outcome) bool {
		return slices.ContainsFunc(c.tests, func(o outcome) bool { return o.Action == "fail" && o.isBelow(parent) })
	}
	// Subtests are before the tests that they are part of.
	for i, o := range c.tests {
		is := o.Package == flaky.Package && o.Test == flaky.Test
		if o.Action == "fail" && (is || flaky.isBelow(o) && !remains(o)) {
			c.tests[i].Action = "pass"
		}
	}
}
