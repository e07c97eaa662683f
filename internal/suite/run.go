package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"time"
)

// module is the import path of this repository.
const module = "github.com/hostler/hostler"

// withoutEngines hides the engines and servers of this machine from tests.
var withoutEngines = []string{
	"DOCKER_HOST=unix:///nonexistent", "KUBECONFIG=/nonexistent", "HOSTLER_TEST_CLUSTER=/nonexistent",
	"HOSTLER_POSTGRES_DIR=/nonexistent", "HOSTLER_TEST_POSTGRES=", "HOSTLER_GVISOR_DIR=/nonexistent", "REQUIRE=",
}

// options are those of suite run.
type options struct {
	race    bool
	tags    string
	timeout string // of a package: what ends a test that hangs
	skipped string // file to write the skipped tests to
	only    string // file of the tests to run
	except  string // pattern of packages to leave out, with only
	summary string // file to write the counts to
	engines bool   // whether tests may reach engines
	rerun   bool   // whether a test that failed is run again, alone
	atOnce  int    // packages at once
	args    []string
}

func runCommand(args []string) error {
	var o options
	flags := flag.NewFlagSet("suite run", flag.ExitOnError)
	flags.BoolVar(&o.race, "race", false, "with the race detector, if there is a C compiler")
	flags.StringVar(&o.tags, "tags", "", "build `TAGS`")
	flags.StringVar(&o.timeout, "timeout", "40m", "end a package after `TIME`")
	flags.StringVar(&o.skipped, "skipped", "", "write the tests that were skipped to `FILE`")
	flags.StringVar(&o.only, "only", "", "run the tests of `FILE`, which -skipped has written")
	flags.StringVar(&o.except, "except", "", "with -only, leave out packages that match `PATTERN`")
	flags.StringVar(&o.summary, "summary", "", "add the counts of this run to `FILE`")
	flags.BoolVar(&o.engines, "engines", true, "with the engines of this machine in reach")
	flags.BoolVar(&o.rerun, "rerun", false, "run a test again that failed, alone, and record it as flaky if it passes then")
	flags.IntVar(&o.atOnce, "p", 2, "packages at once")
	_ = flags.Parse(args)
	o.args = flags.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return run(ctx, o)
}

func run(ctx context.Context, o options) error {
	began := time.Now()
	if o.race && !hasCompiler() {
		fmt.Println("without the race detector: it needs a C compiler")
		o.race = false
	}
	c := newCollector(os.Stdout)
	var expected skipList
	var err error
	if o.only != "" {
		if expected, err = readSkipList(o.only); err != nil {
			return err
		}
		if expected, err = expected.without(o.except); err != nil {
			return err
		}
		err = runOnly(ctx, o, c, expected)
	} else {
		err = c.follow(ctx, o, append(goTest(o), o.args...))
	}
	if err != nil {
		return err
	}
	if o.rerun {
		if err := c.rerun(ctx, o); err != nil {
			return err
		}
	}
	report(os.Stdout, c)
	ok := conclude(os.Stdout, c, expected)
	if o.skipped != "" {
		if err := newSkipList(c.tests).write(o.skipped); err != nil {
			return err
		}
	}
	if o.summary != "" {
		if err := addSummary(o.summary, c, time.Since(began)); err != nil {
			return err
		}
	}
	if !ok {
		return errNo
	}
	return nil
}

// goTest returns the command without the packages.
func goTest(o options) []string {
	command := []string{"go", "test", "-json", "-timeout=" + o.timeout, "-trimpath", "-tags=" + o.tags, fmt.Sprintf("-p=%d", o.atOnce)}
	if !o.race {
		return command
	}
	// SQLite translated to Go is twenty times slower with the detector, and most
	// of the time of the flows' tests; compression is most of that of snapshots.
	// Races in them are not ours to find. Others must be tried first: instances of
	// generic code that such a module compiles may be linked into everything, and
	// false reports follow (github.com/PlakarKorp does that). internal/arch reads
	// every file of the tree, and starts nothing.
	return append(command, "-race", "-gcflags=modernc.org/...=-race=false", "-gcflags=github.com/klauspost/...=-race=false",
		"-gcflags=github.com/hostler/hostler/internal/arch=-race=false")
}

func hasCompiler() bool {
	out, err := exec.Command("go", "env", "CGO_ENABLED", "CC").Output()
	if err != nil {
		return false
	}
	var enabled int
	var cc string
	if _, err := fmt.Sscan(string(out), &enabled, &cc); err != nil || enabled != 1 {
		return false
	}
	_, err = exec.LookPath(cc)
	return err == nil
}

// runOnly runs the tests of a list, some packages at once. Results of tests with
// engines are never taken from the cache: an engine is no file.
func runOnly(ctx context.Context, o options, c *collector, list skipList) error {
	packages := list.packages()
	commands := make(chan []string, len(packages))
	for _, pkg := range packages {
		command := append(goTest(o), "-count=1", "-run="+list.pattern(pkg))
		commands <- append(append(command, o.args...), pkg)
	}
	close(commands)
	var (
		workers sync.WaitGroup
		mu      sync.Mutex // guards failed
		failed  []error
	)
	for range o.atOnce {
		workers.Go(func() {
			for command := range commands {
				if err := c.follow(ctx, o, command); err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(failed...)
}

// follow runs a command that prints events. That tests fail is no error: the
// events have it.
func (c *collector) follow(ctx context.Context, o options, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	cmd.Env = os.Environ()
	if !o.race {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0") // as the programs are built
	}
	if !o.engines {
		cmd.Env = append(cmd.Env, withoutEngines...)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := c.read(out); err != nil {
		return err
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		c.exited()
		return nil
	}
	return err
}

// skipList is the tests that a run has skipped, and why, by package.
type skipList map[string]map[string]string

// newSkipList returns the skipped tests that a run with engines is to repeat:
// those that wait for the full suite or another rotation are not.
func newSkipList(tests []outcome) skipList {
	list := skipList{}
	for _, o := range tests {
		if o.Action != "skip" || isDeferred(o.Reason) {
			continue
		}
		if list[o.Package] == nil {
			list[o.Package] = map[string]string{}
		}
		list[o.Package][o.Test] = o.Reason
	}
	return list
}

func readSkipList(name string) (skipList, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list skipList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

func (l skipList) write(name string) error {
	text, err := json.MarshalIndent(l, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}

// packages returns the packages, the one with the most tests first: it is
// likely to take the longest.
func (l skipList) packages() []string {
	all := make([]string, 0, len(l))
	for pkg := range l {
		all = append(all, pkg)
	}
	slices.SortFunc(all, func(a, b string) int {
		if d := len(l[b]) - len(l[a]); d != 0 {
			return d
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	return all
}

func fprintf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
