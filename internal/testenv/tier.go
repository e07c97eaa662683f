package testenv

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"testing"
)

// The first words of the reasons why a test is left out that the machine could
// run. A test that both passes of a run skip was left out on purpose if its
// reason begins with FullSuite or Rotation, and SecondPass is never a reason in
// the second pass.
const (
	FullSuite  = "full suite only: "
	Rotation   = "rotation "
	SecondPass = "second pass: "
)

// IsFull reports whether this run leaves nothing out to be fast.
func IsFull() bool { return tier() == "" || tier() == "full" }

// FullOnly skips a test that only the full suite runs, with the reason. FORCE,
// a list such as gvisor,soak, has it run in every tier where it contains name.
func FullOnly(tb testing.TB, name, reason string) {
	tb.Helper()
	if !IsFull() && !isListed("FORCE", name) {
		tb.Skip(FullSuite + reason)
	}
}

// InSecondPass skips a test in the first pass, with the reason. It is for what
// would run without an engine, but is too slow for a first answer. What is
// missing without an engine is skipped by Skip.
func InSecondPass(tb testing.TB, reason string) {
	tb.Helper()
	if tier() == "short" || os.Getenv("PASS") == "1" {
		tb.Skip(SecondPass + reason)
	}
}

// Parallel has n tests run at once, unless -parallel is set. The TestMain
// of a package calls it whose tests wait for other processes most of their time.
func Parallel(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// Rotates skips a case that this run does not select.
func Rotates(tb testing.TB, parts int, name string) {
	tb.Helper()
	if !Selects(parts, name) {
		tb.Skipf(Rotation+"%d/%d: not in this run", Part(parts), parts)
	}
}

// Selects reports whether a run includes a case, by its name: a full run does
// always, and any other includes one of so many parts of the cases. As many runs
// with consecutive values of ROTATE include each case once.
func Selects(parts int, name string) bool {
	if IsFull() {
		return true
	}
	h := fnv.New32a()
	h.Write([]byte(name)) //nolint:errcheck // it never fails
	return int(h.Sum32()%uint32(parts)) == Part(parts)
}

// Part returns which of so many parts of the cases a run that is not full
// includes, from 0.
func Part(parts int) int { return rotation() % parts }

// tier returns TIER, or short with go test -short.
func tier() string {
	switch t := os.Getenv("TIER"); t {
	case "short", "gate", "full":
		return t
	case "":
		if testing.Short() {
			return "short"
		}
		return ""
	default:
		panic(fmt.Sprintf("TIER is %q, not short, gate or full", t))
	}
}

// rotation returns ROTATE, which is 0 by default.
func rotation() int {
	text := os.Getenv("ROTATE")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		panic(fmt.Sprintf("ROTATE is %q, not a number such as that of the commits", text))
	}
	return int(n)
}
