package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/hostler/hostler/hooks"
)

// behavior is what a tenant's hook does, and the states in which it may end.
// hooks.Lost, hooks.Unknown and hooks.Skipped are always possible, because its
// container can be killed and the engine can be unavailable for so long that the
// outcome is unknown.
type behavior struct {
	name   string
	weight int
	ends   []hooks.RunState
	exit   int // exit code if it ended as hooks.Failed; -1: any
	leaves bool
}

// behaviors are the behaviors of the program in testdata/testprog.
var behaviors = []behavior{
	{name: "ok", weight: 40, ends: []hooks.RunState{hooks.Succeeded}},
	{name: "daemon", weight: 6, ends: []hooks.RunState{hooks.Succeeded}},
	{name: "fork", weight: 4, ends: []hooks.RunState{hooks.Succeeded}, leaves: true},
	{name: "session", weight: 4, ends: []hooks.RunState{hooks.Succeeded}, leaves: true},
	{name: "litter", weight: 2, ends: []hooks.RunState{hooks.Succeeded}},
	{name: "spam", weight: 4, ends: []hooks.RunState{hooks.Succeeded, hooks.TimedOut}},
	{name: "fail", weight: 4, ends: []hooks.RunState{hooks.Failed}, exit: 3},
	{name: "hang", weight: 4, ends: []hooks.RunState{hooks.TimedOut}},
	{name: "ignore-term", weight: 2, ends: []hooks.RunState{hooks.TimedOut}},
	{name: "storm", weight: 3, ends: []hooks.RunState{hooks.TimedOut}},
	{name: "hog", weight: 2, ends: []hooks.RunState{hooks.Failed, hooks.TimedOut}, exit: 137},
	{name: "kill-main", weight: 2, ends: []hooks.RunState{hooks.Succeeded, hooks.Failed}, exit: -1},
	{name: "kill-init", weight: 2, ends: []hooks.RunState{hooks.TimedOut, hooks.Failed}, exit: -1},
	{name: "kill-worker", weight: 2, ends: []hooks.RunState{hooks.TimedOut}},
	{name: "stop-worker", weight: 2, ends: []hooks.RunState{hooks.TimedOut}},
}

// behaviorOf returns the behavior of a tenant at a point.
func behaviorOf(tenant string, p hooks.Point) behavior {
	parts := strings.Split(tenant, ".")
	name := map[hooks.Point]string{hooks.PostClaim: parts[1], hooks.PreRelease: parts[2]}[p]
	i := slices.IndexFunc(behaviors, func(b behavior) bool { return b.name == name })
	return behaviors[i]
}

// isLate reports whether an attempt timed out although its behavior does not
// wait: that happens occasionally on a busy machine.
func isLate(r hooks.Run) bool {
	limit := actTimeout
	if r.Hook == "act" {
		if slices.Contains(behaviorOf(r.Tenant, r.Point).ends, hooks.TimedOut) {
			return false
		}
	} else if limit = goneTimeout; r.Hook != "gone" {
		return false
	}
	return r.State == hooks.TimedOut && r.Duration >= float64(limit.Milliseconds())
}

// allows returns an error if the behavior does not allow the end of an attempt.
func (b behavior) allows(r hooks.Run) error {
	always := []hooks.RunState{hooks.Lost, hooks.Unknown, hooks.Skipped}
	switch {
	case slices.Contains(always, r.State), isLate(r):
		return nil
	case !slices.Contains(b.ends, r.State):
		return fmt.Errorf("%s ended as %s (exit code %v, %s)", b.name, r.State, deref(r.ExitCode), r.Error)
	case r.State == hooks.Failed && b.exit >= 0 && deref(r.ExitCode) != b.exit:
		return fmt.Errorf("%s failed with exit code %v", b.name, deref(r.ExitCode))
	case r.State == hooks.Succeeded && b.leaves && r.Leaked == 0:
		return fmt.Errorf("%s left a process behind that was not detected", b.name)
	}
	return nil
}

func deref(code *int) int {
	if code == nil {
		return -1
	}
	return *code
}

// tenantPool has the tenants of a workload. One client at a time acts as each.
type tenantPool struct {
	mu    sync.Mutex // guards what follows
	free  []string
	known int // how many there have been
	name  func(n int, random *rand.Rand) string
}

func newTenantPool(n int, random *rand.Rand, name func(n int, random *rand.Rand) string) *tenantPool {
	c := &tenantPool{name: name}
	for range n {
		c.addTenant(random)
	}
	return c
}

// addTenant adds a tenant, whose name fixes its behaviors.
func (c *tenantPool) addTenant(random *rand.Rand) {
	c.known++
	c.free = append(c.free, c.name(c.known, random))
}

// newTenantName returns the name of a tenant with two behaviors.
func newTenantName(n int, random *rand.Rand) string {
	return fmt.Sprintf("tenant-%d.%s.%s", n, pick(random), pick(random))
}

// pick chooses a behavior by weight.
func pick(random *rand.Rand) string {
	total := 0
	for _, b := range behaviors {
		total += b.weight
	}
	n := random.IntN(total)
	for _, b := range behaviors {
		if n -= b.weight; n < 0 {
			return b.name
		}
	}
	panic("the weights do not add up")
}

// acquire chooses a free tenant.
func (c *tenantPool) acquire(random *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := random.IntN(len(c.free))
	tenant := c.free[i]
	c.free = slices.Delete(c.free, i, i+1)
	return tenant
}

// release returns the tenant, or replaces it with a new one: in the long run
// every tenant uses the containers of every other.
func (c *tenantPool) release(tenant string, random *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if random.IntN(3) == 0 {
		c.addTenant(random)
		return
	}
	c.free = append(c.free, tenant)
}
