package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/hostler/hostler/internal/testenv"
)

// deferred are the beginnings of the reasons with which a test is left to
// another run.
var deferred = []string{testenv.FullSuite, testenv.Rotation}

func isDeferred(reason string) bool {
	return slices.ContainsFunc(deferred, func(prefix string) bool { return strings.HasPrefix(reason, prefix) })
}

// excused are the reasons with which a test may be skipped by every run: what
// no package can bring to a machine.
var excused = []*regexp.Regexp{
	regexp.MustCompile(`^this machine has no IPv6 address`),
	regexp.MustCompile(`^requires root and Linux 6\.3`),
	regexp.MustCompile(`^the filesystem of \S+ has no stamps`),
	regexp.MustCompile(`^this backend isolates nothing`),
	regexp.MustCompile(`^there is no chromium`), // an example has it where it is
	regexp.MustCompile(`^HOSTLER_SEEDS is not set`),
}

func isExcused(reason string) bool {
	return slices.ContainsFunc(excused, func(r *regexp.Regexp) bool { return r.MatchString(reason) })
}

// without returns the list without the packages that match a pattern.
func (l skipList) without(pattern string) (skipList, error) {
	if pattern == "" {
		return l, nil
	}
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	rest := skipList{}
	for pkg, tests := range l {
		if !match.MatchString(short(pkg)) {
			rest[pkg] = tests
		}
	}
	return rest, nil
}

// pattern returns the value of go test -run for the tests of a package.
func (l skipList) pattern(pkg string) string {
	names := make([]string, 0, len(l[pkg]))
	for name := range l[pkg] {
		levels := strings.Split(name, "/")
		for i, level := range levels {
			levels[i] = "^" + regexp.QuoteMeta(level) + "$"
		}
		names = append(names, strings.Join(levels, "/"))
	}
	slices.Sort(names)
	return strings.Join(names, "|")
}

// missing returns the tests of the list that were skipped again without an
// excuse, and those that were not run at all.
func (l skipList) missing(tests []outcome) []string {
	ends := map[string]outcome{}
	for _, o := range tests {
		ends[o.Package+" "+o.Test] = o
	}
	var all []string
	for pkg, names := range l {
		for name, reason := range names {
			o, ran := ends[pkg+" "+name]
			switch {
			case !ran && !isExcused(reason):
				all = append(all, short(pkg)+" "+name+": was skipped ("+reason+") and then not run")
			case o.Action == "skip" && !isDeferred(o.Reason) && !isExcused(o.Reason):
				all = append(all, short(pkg)+" "+name+": skipped again: "+o.Reason)
			}
		}
	}
	slices.Sort(all)
	return all
}
