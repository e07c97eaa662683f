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
	"strings"
)

// unitTests is an environment in which unit tests run, and what needs an engine
// does not.
var unitTests = []string{"DOCKER_HOST=unix:///nonexistent", "KUBECONFIG=/nonexistent", "REQUIRE=", "DEFER=", "PASS=", "TIER="}

// try builds the tests of the mutation's package with it, and returns an error
// unless the mutation's test fails.
func try(ctx context.Context, m mutation) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlayFile, err := overlay(dir, m)
	if err != nil {
		return err
	}
	pkg := cmp.Or(m.pkg, path.Dir(m.file))
	program := filepath.Join(dir, "test")
	env := append(os.Environ(), unitTests...) // what a test builds has the change too
	env = append(env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -overlay="+overlayFile)
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program, "./"+pkg)
	build.Env = env
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the tests do not build: %s", text)
	}
	c := exec.CommandContext(ctx, program, "-test.failfast", "-test.timeout=10m", "-test.run", "^"+m.test+"$")
	c.Dir, c.Env = pkg, env
	text, err := c.CombinedOutput()
	return judge(string(text), err, m.test)
}

// judge returns nil if the test failed, given what it printed and how it ended.
func judge(text string, err error, test string) error {
	switch {
	case strings.Contains(text, "no tests to run"):
		return errors.New("its test does not exist")
	case err == nil:
		return fmt.Errorf("%s passed", test)
	case strings.Contains(text, "panic: test timed out"):
		return fmt.Errorf("%s did not end", test) // the machine may be slow
	case strings.Contains(text, "--- FAIL: "+test), strings.Contains(text, "panic: "):
		return nil // it failed, or ended the program
	}
	return fmt.Errorf("%s did not run: %w: %s", test, err, text[max(0, len(text)-2000):])
}

// overlay writes the changed file and the overlay configuration for the compiler,
// and returns the path of the latter.
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
