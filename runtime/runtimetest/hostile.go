package runtimetest

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// attack is a row of the table that the program attacker has.
type attack struct {
	Name, Class, Text, User string
	Parting, State, Listed  bool
}

// Results of an attack. The first two are as good: the next tenant observes
// nothing of the one before.
const (
	held    = "held"    // the wiped container shows nothing of it
	tainted = "tainted" // the container was destroyed
	listed  = "listed"  // observed, and named in SECURITY.md
	reached = "REACHED" // the next tenant, or the server, suffers from it
)

// attacked is one way of making the container that is attacked.
type attacked struct {
	user     string // root or other
	readOnly bool
}

func (a attacked) root() string {
	if a.readOnly {
		return "read-only"
	}
	return "writable"
}

// Hostile performs every attack on a backend: as the workload's own process,
// followed by the release of its tenant and the claim of the next one. Attacks
// share the life of a container until one taints it, and each is performed in
// one of the ways in which containers are made. With HOSTILE=all each is
// performed in all of them, whatever the harness leaves out, with HOSTILE=alone each in a container of its own
// besides; HOSTILE_ONLY is a pattern of names and classes, and HOSTILE_WAY one of
// ways such as docker/root/read-only.
func Hostile(t *testing.T, backend string, h Harness) {
	if h.Attacked == nil {
		t.Skip("this backend isolates nothing")
	}
	s := &suite{Harness: h, rt: h.New(t)}
	alone := os.Getenv("HOSTILE") == "alone"
	all := alone || os.Getenv("HOSTILE") == "all"
	sample := max(1, h.Sample)
	table := attackTable(t)
	record := newRecord(t, backend)
	goroutines := goruntime.NumGoroutine()
	for i, way := range s.ways() {
		if !wanted(t, "HOSTILE_WAY", backend+"/"+way.user+"/"+way.root()) {
			continue
		}
		mine := slices.DeleteFunc(slices.Clone(table), func(a attack) bool {
			n := slices.IndexFunc(table, func(b attack) bool { return b.Name == a.Name })
			left := !all && (s.chosen(n, sample, table) != i || n%sample != len(backend)%sample)
			return a.User != "" && a.User != way.user || left
		})
		t.Run(way.user+" "+way.root(), func(t *testing.T) {
			c := &campaign{suite: s, way: way, alone: alone, record: record}
			c.run(t, mine)
		})
	}
	eventually(t, "what the attacks have begun in this process is over", func() bool {
		return goruntime.NumGoroutine() <= goroutines+goroutineSlack
	})
}

// goroutineSlack is what a client of an engine may keep for idle connections.
const goroutineSlack = 20

// ways are those in which containers are made, the most open one first.
func (s *suite) ways() []attacked {
	var ways []attacked
	for _, user := range []string{"root", "other"} {
		for _, readOnly := range []bool{false, true} {
			if user == "root" && s.Facts.OneUser {
				continue
			}
			ways = append(ways, attacked{user, readOnly})
		}
	}
	return ways
}

// chosen is the way in which an attack is performed where it is only performed
// once: they take turns, where an attack is not only one user's.
func (s *suite) chosen(n, sample int, table []attack) int {
	ways, a := s.ways(), table[n]
	for n /= sample; ; n++ {
		if way := ways[n%len(ways)]; a.User == "" || a.User == way.user || s.Facts.OneUser {
			return n % len(ways)
		}
	}
}

// attackTable asks the program for its attacks.
func attackTable(t *testing.T) []attack {
	t.Helper()
	out, err := exec.Command(BuildAttacker(t), "list").Output()
	require.NoError(t, err, "attacker list")
	var table []attack
	require.NoError(t, json.Unmarshal(out, &table))
	return slices.DeleteFunc(table, func(a attack) bool { return !wanted(t, "HOSTILE_ONLY", a.Name, a.Class) })
}

// wanted reports whether the pattern that a variable holds matches one of the
// names, each as a whole. A variable that is not set wants everything.
func wanted(t *testing.T, variable string, names ...string) bool {
	t.Helper()
	text := os.Getenv(variable)
	pattern, err := regexp.Compile("^(" + text + ")$")
	require.NoError(t, err, variable)
	return text == "" || slices.ContainsFunc(names, pattern.MatchString)
}

// campaign is all attacks on containers that are made in one way.
type campaign struct {
	*suite
	way    attacked
	alone  bool // each attack has a container of its own
	record *record

	current *life
}

func (c *campaign) run(t *testing.T, table []attack) {
	defer func() { c.end(t) }()
	for _, a := range table {
		result, detail := c.perform(t, a)
		if result == reached && !c.alone && len(c.current.past) > 1 {
			// Others were here before: which of them was it?
			before, first := c.current.attacks, detail
			c.end(t)
			result, detail = c.perform(t, a)
			if result != reached {
				result, detail = reached, "not alone, but after "+before+": "+first
			}
		}
		c.record.add(t, a, c.way, result, detail)
		if result == reached {
			t.Errorf("%s: %s: the next tenant: %s", a.Name, a.Text, detail)
		}
		if result != held || c.alone {
			c.end(t)
		}
	}
}

// end destroys the container: its slot is free again.
func (c *campaign) end(t *testing.T) {
	if c.current != nil {
		c.current.destroy(t)
		c.current = nil
	}
}

// perform is one attack, the release after it and the next tenant.
func (c *campaign) perform(t *testing.T, a attack) (result, detail string) {
	if c.current == nil {
		c.current = c.newLife(t)
	}
	l := c.current
	l.attacks += a.Name + " "
	l.attack(a)
	if err := l.release(a); err != nil {
		return verdict(err)
	}
	if err := l.recycle(); err != nil {
		return verdict(err)
	}
	seen, err := l.nextTenant(a)
	if err != nil {
		return verdict(err)
	}
	if len(seen) > 0 && a.Listed {
		return listed, seen[0]
	}
	if len(seen) > 0 {
		return reached, strings.Join(seen[:min(len(seen), 6)], "; ")
	}
	return held, ""
}
