package runtimetest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	goruntime "runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// attack is a row of the table of the program attacker.
type attack struct {
	Name, Class, Text, User string
	Parting, State, Listed  bool
	Requests                bool
}

// Results of an attack. With the first two the next tenant observes nothing of
// the one before.
const (
	held    = "held"    // the wiped container shows nothing of it
	tainted = "tainted" // the container was destroyed
	listed  = "listed"  // observed, and named in SECURITY.md
	reached = "REACHED" // the next tenant, or the server, is affected
)

// attackVariant is one configuration of the container that is attacked.
type attackVariant struct {
	user     string // root or other
	readOnly bool
}

func (a attackVariant) root() string {
	if a.readOnly {
		return "read-only"
	}
	return "writable"
}

// RunHostile performs every attack on a backend: as the workload's own process,
// followed by the release of its tenant and the claim of the next one. Attacks
// share a container until one taints it, and each is performed in one of the
// variants of containers. A run that is not full performs a part of them, with
// some of every class. With HOSTILE=all each is performed in all variants,
// whatever the harness omits, and with HOSTILE=alone each also in a separate
// container. HOSTILE_ONLY is a pattern of names and classes, and HOSTILE_WAY one
// of variants such as docker/root/read-only.
func RunHostile(t *testing.T, backend string, h Harness) {
	if h.AttackedSpec == nil {
		t.Skip("this backend isolates nothing")
	}
	s := &suite{Harness: h, rt: h.New(t)}
	isolated := os.Getenv("HOSTILE") == "alone"
	all := isolated || os.Getenv("HOSTILE") == "all"
	sample := max(1, h.Sample)
	table := attackTable(t)
	included := sampleOf(table, sample, len(backend))
	if !testenv.IsFull() {
		included = rotatingSample(table, testenv.Part(attackParts)+len(backend))
	}
	results := newResultTable(t, backend)
	goroutines := goruntime.NumGoroutine()
	for i, variant := range s.variants() {
		if !isSelected(t, "HOSTILE_WAY", backend+"/"+variant.user+"/"+variant.root()) {
			continue
		}
		selected := slices.DeleteFunc(slices.Clone(table), func(a attack) bool {
			n := slices.IndexFunc(table, func(b attack) bool { return b.Name == a.Name })
			skip := !all && (s.variantFor(n, sample, table) != i || !included[a.Name])
			return a.User != "" && a.User != variant.user || skip
		})
		t.Run(variant.user+" "+variant.root(), func(t *testing.T) {
			c := &campaign{suite: s, variant: variant, isolated: isolated, results: results}
			c.run(t, selected)
		})
	}
	t.Cleanup(func() {
		if t.Failed() && goruntime.NumGoroutine() > goroutines+goroutineSlack {
			var text bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a buffer takes everything
			t.Logf("%d goroutines at the beginning; now:\n%s", goroutines, text.String())
		}
	})
	testenv.AwaitTrue(t, "what the attacks have started in this process has ended", func() bool {
		return goruntime.NumGoroutine() <= goroutines+goroutineSlack
	})
}

// sampleOf returns the names of one of so many attacks.
func sampleOf(table []attack, sample, offset int) map[string]bool {
	included := map[string]bool{}
	for n, a := range table {
		included[a.Name] = n%sample == offset%sample
	}
	return included
}

// attackParts is into how many parts the attacks are divided of which a run that
// is not full performs one.
const attackParts = 10

// rotatingSample returns the names of the attacks of a part: of each class a
// tenth, and at least one.
func rotatingSample(table []attack, part int) map[string]bool {
	sizes, included := map[string]int{}, map[string]bool{}
	for _, a := range table {
		sizes[a.Class]++
	}
	position := map[string]int{}
	for _, a := range table {
		parts := min(attackParts, sizes[a.Class])
		included[a.Name] = position[a.Class]%parts == part%parts
		position[a.Class]++
	}
	return included
}

// goroutineSlack is how many goroutines an engine's client may keep for idle
// connections.
const goroutineSlack = 20

// variants returns those of the backend, the least restricted first.
func (s *suite) variants() []attackVariant {
	var variants []attackVariant
	for _, user := range []string{"root", "other"} {
		for _, readOnly := range []bool{false, true} {
			if user == "root" && s.Limitations.SingleUser {
				continue
			}
			variants = append(variants, attackVariant{user, readOnly})
		}
	}
	return variants
}

// variantFor returns the variant of an attack that is performed only once: attacks
// alternate between variants, unless an attack is only for one user.
func (s *suite) variantFor(n, sample int, table []attack) int {
	variants, a := s.variants(), table[n]
	for n /= sample; ; n++ {
		if variant := variants[n%len(variants)]; a.User == "" || a.User == variant.user || s.Limitations.SingleUser {
			return n % len(variants)
		}
	}
}

// attackTable reads the attacks from the program.
func attackTable(t *testing.T) []attack {
	t.Helper()
	out, err := exec.Command(BuildAttacker(t), "list").Output()
	require.NoError(t, err, "attacker list")
	var table []attack
	require.NoError(t, json.Unmarshal(out, &table))
	return slices.DeleteFunc(table, func(a attack) bool { return !isSelected(t, "HOSTILE_ONLY", a.Name, a.Class) })
}

// isSelected reports whether the pattern in a variable matches one of the names
// completely. An unset variable matches everything.
func isSelected(t *testing.T, variable string, names ...string) bool {
	t.Helper()
	text := os.Getenv(variable)
	pattern, err := regexp.Compile("^(" + text + ")$")
	require.NoError(t, err, variable)
	return text == "" || slices.ContainsFunc(names, pattern.MatchString)
}

// campaign is all attacks on containers of one variant.
type campaign struct {
	*suite
	variant  attackVariant
	isolated bool // each attack has a separate container
	results  *resultTable

	target *target
}

func (c *campaign) run(t *testing.T, table []attack) {
	defer func() { c.end(t) }()
	for _, a := range table {
		result, detail := c.perform(t, a)
		if result == reached && !c.isolated && len(c.target.markers) > 1 {
			// Other attacks came before it: find which one it was.
			before, first := c.target.attacks, detail
			c.end(t)
			result, detail = c.perform(t, a)
			if result != reached {
				result, detail = reached, "not alone, but after "+before+": "+first
			}
		}
		c.results.add(t, a, c.variant, result, detail)
		if result == reached {
			t.Errorf("%s: %s: the next tenant: %s", a.Name, a.Text, detail)
		}
		if result != held || c.isolated {
			c.end(t)
		}
	}
}

// end destroys the container, which frees its slot.
func (c *campaign) end(t *testing.T) {
	if c.target != nil {
		c.target.destroy(t)
		c.target = nil
	}
}

// perform runs one attack, the release after it and the next tenant.
func (c *campaign) perform(t *testing.T, a attack) (result, detail string) {
	if c.target == nil {
		c.target = c.newTarget(t)
	}
	l := c.target
	l.attacks += a.Name + " "
	if err := l.attackServed(a); err != nil {
		return classify(err)
	}
	if err := l.release(a); err != nil {
		return classify(err)
	}
	if err := l.recycle(); err != nil {
		return classify(err)
	}
	seen, err := l.nextTenant(a)
	if err != nil {
		return classify(err)
	}
	if len(seen) > 0 && a.Listed {
		return listed, seen[0]
	}
	if len(seen) > 0 {
		return reached, strings.Join(seen[:min(len(seen), 6)], "; ")
	}
	return held, ""
}
