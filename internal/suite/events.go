package main

import (
	"bufio"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// event is an event of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// outcome is what became of a test.
type outcome struct {
	Package string
	Test    string
	Action  string // pass, fail or skip
	Reason  string // why it was skipped
	Output  string // of a test that failed
	Seconds float64
}

// isTop reports whether the test has no parent.
func (o outcome) isTop() bool { return !strings.Contains(o.Test, "/") }

// packageOutcome is what became of a package.
type packageOutcome struct {
	Package string
	Failed  bool
	Cached  bool
	Seconds float64
}

// collector follows the events of one or several runs of go test, also at once,
// and prints what people are to see at once.
type collector struct {
	print io.Writer

	mu       sync.Mutex                  // guards what follows, and print
	output   map[string]*strings.Builder // by package and test
	builds   map[string]*strings.Builder
	running  map[string][]string // tests without an end, by package
	tests    []outcome
	packages []packageOutcome
	broken   []string // failures that belong to no test
	flaky    []string // tests that have passed when they were run again
}

func newCollector(w io.Writer) *collector {
	return &collector{print: w, output: map[string]*strings.Builder{}, builds: map[string]*strings.Builder{}, running: map[string][]string{}}
}

// read follows the output of go test -json to its end. A line that is no event
// is printed.
func (c *collector) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				_, _ = c.print.Write(line)
			} else {
				c.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *collector) add(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		buffer(c.builds, e.ImportPath).WriteString(e.Output)
	case "build-fail":
		c.broken = append(c.broken, "build of "+e.ImportPath)
		c.printf("%s", buffer(c.builds, e.ImportPath).String())
	case "output":
		buffer(c.output, key).WriteString(e.Output)
	case "run":
		c.running[e.Package] = append(c.running[e.Package], e.Test)
	case "pass", "fail", "skip":
		text := buffer(c.output, key).String()
		delete(c.output, key)
		if e.Test == "" {
			c.endPackage(e, text)
			return
		}
		c.running[e.Package] = slices.DeleteFunc(c.running[e.Package], func(name string) bool { return name == e.Test })
		c.endTest(e, text)
	}
}

func (c *collector) endTest(e event, text string) {
	o := outcome{Package: e.Package, Test: e.Test, Action: e.Action, Seconds: e.Elapsed}
	if e.Action == "skip" {
		o.Reason = reason(text)
	}
	if e.Action == "fail" {
		o.Output = withoutProgress(text)
		c.printf("--- FAIL: %s %s (%.1f s)\n%s", short(e.Package), e.Test, e.Elapsed, o.Output)
	}
	c.tests = append(c.tests, o)
}

func (c *collector) endPackage(e event, text string) {
	p := packageOutcome{Package: e.Package, Failed: e.Action == "fail", Cached: strings.Contains(text, "\t(cached)"), Seconds: e.Elapsed}
	c.packages = append(c.packages, p)
	switch {
	case p.Failed:
		c.printf("FAIL  %s %.1f s\n%s", short(e.Package), e.Elapsed, withoutProgress(text))
		c.endUnfinished(e.Package)
	case p.Cached:
		c.printf("ok    %s (cached)\n", short(e.Package))
	case e.Action == "pass":
		c.printf("ok    %s %.1f s\n", short(e.Package), e.Elapsed)
	}
}

// noEnd is the output of a test during which the program exited.
const noEnd = "no end"

// endUnfinished fails the tests of a package that have no end: the program
// exited during them.
func (c *collector) endUnfinished(pkg string) {
	failed := func(o outcome) bool { return o.Package == pkg && o.Action == "fail" }
	if len(c.running[pkg]) == 0 && !slices.ContainsFunc(c.tests, failed) {
		c.broken = append(c.broken, short(pkg))
	}
	for _, name := range c.running[pkg] {
		key := pkg + " " + name
		c.printf("--- FAIL: %s %s (no end)\n%s", short(pkg), name, withoutProgress(buffer(c.output, key).String()))
		delete(c.output, key)
		c.tests = append(c.tests, outcome{Package: pkg, Test: name, Action: "fail", Output: noEnd})
	}
	delete(c.running, pkg)
}

// exited records that go test has failed: without a failed test or package, the
// reason is in what it has printed.
func (c *collector) exited() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.broken) == 0 && count(c.tests, "fail") == 0 {
		c.broken = append(c.broken, "go test has failed")
	}
}

func (c *collector) printf(format string, args ...any) { fprintf(c.print, format, args...) }

func buffer(all map[string]*strings.Builder, key string) *strings.Builder {
	if all[key] == nil {
		all[key] = &strings.Builder{}
	}
	return all[key]
}

// progress matches the lines that go test prints about its progress.
var progress = regexp.MustCompile(`(?m)^[ \t]*(=== (RUN|PAUSE|CONT|NAME|ATTR)|--- (PASS|SKIP|FAIL)).*\n`)

func withoutProgress(text string) string { return progress.ReplaceAllString(text, "") }

// logged matches what a test has logged with its file and line.
var logged = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason returns the last line that a skipped test has logged.
func reason(text string) string {
	all := logged.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return "no reason"
	}
	return all[len(all)-1][1]
}

// short is an import path without the module.
func short(pkg string) string { return strings.TrimPrefix(pkg, module+"/") }

// count returns the number of tests with an outcome. A test with subtests is
// counted by them, but for one that failed and has none that did.
func count(tests []outcome, action string) int {
	parents := map[string]bool{}
	for _, o := range tests {
		if action == "fail" && o.Action != action {
			continue
		}
		for i, r := range o.Test {
			if r == '/' {
				parents[o.Package+" "+o.Test[:i]] = true
			}
		}
	}
	n := 0
	for _, o := range tests {
		if o.Action == action && !parents[o.Package+" "+o.Test] {
			n++
		}
	}
	return n
}
