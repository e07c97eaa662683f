package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// result is the result of a mutation.
type result struct {
	test string // the test that detected it; empty: none
	err  error  // why it could not be applied
}

// isExpected reports whether it was detected, or is equivalent as declared.
func (r result) isExpected(m mutation) bool {
	return r.err == nil && (r.test != "") == (m.equivalent == "")
}

// text returns the result for people.
func (r result) text(m mutation) string {
	switch {
	case r.err != nil:
		return "NOT TRIED: " + strings.ReplaceAll(strings.TrimSpace(r.err.Error()), "\n", " ")
	case r.test != "" && m.equivalent != "":
		return "NOT EQUIVALENT: " + r.test
	case r.test != "":
		return "`" + r.test + "`"
	case m.equivalent != "":
		return "equivalent: " + m.equivalent
	}
	return "SURVIVED"
}

// noEngineEnv hides the engines from tests, so that only unit tests run.
var noEngineEnv = []string{"DOCKER_HOST=unix:///nonexistent", "KUBECONFIG=/nonexistent", "REQUIRE="}

// try builds the tests of the mutation's package with it, and runs them.
func try(ctx context.Context, m mutation) result {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return result{err: err}
	}
	defer os.RemoveAll(dir)
	overlayFile, err := overlay(dir, m)
	if err != nil {
		return result{err: err}
	}
	pkg := cmp.Or(m.pkg, path.Dir(m.file))
	program := filepath.Join(dir, "test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlayFile, "-vet=off", "-ldflags=-s -w", "-o", program, "./"+pkg)
	if text, err := build.CombinedOutput(); err != nil {
		return result{err: fmt.Errorf("build failed: %s", text)}
	}
	pattern := "."
	if m.test != "" {
		pattern = "^" + m.test + "$"
	}
	c := exec.CommandContext(ctx, program, "-test.failfast", "-test.timeout=3m", "-test.run", pattern)
	c.Dir = pkg
	c.Env = append(os.Environ(), noEngineEnv...)
	c.Env = append(c.Env, "GOFLAGS=-overlay="+overlayFile) // for programs that a test builds
	text, err := c.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return result{err: err}
	}
	return parseResult(string(text), err == nil, m.test)
}

// overlay writes the mutated file and the overlay configuration for the
// compiler, and returns the path of the latter.
func overlay(dir string, m mutation) (string, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 || m.old == "" {
		return "", fmt.Errorf("its text occurs %d times: %q", n, m.old)
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	rules, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, rules, 0o600)
}

// testNames find the name of a test in the output: of one that failed, one that
// timed out, and one that panicked.
var testNames = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^\s*--- FAIL: (\w+)`),
	regexp.MustCompile(`(?m)running tests:\n\s*(\w+)`),
	regexp.MustCompile(`\.(Test[A-Z]\w*)[.(]`),
}

// parseResult returns the test that failed. only is the one that was run, "" for
// several: a panic in a goroutine that it started does not name it.
func parseResult(text string, passed bool, only string) result {
	switch {
	case strings.Contains(text, "no tests to run"):
		return result{err: errors.New("its test does not exist")}
	case passed:
		return result{}
	}
	for _, line := range testNames {
		if found := line.FindStringSubmatch(text); found != nil {
			return result{test: found[1]}
		}
	}
	if only != "" && strings.HasPrefix(text, "panic: ") {
		return result{test: only}
	}
	return result{err: fmt.Errorf("no failed test found in: %s", text[max(0, len(text)-2000):])}
}
