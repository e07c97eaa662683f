package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/hostler/hostler/hooks"
)

// behaviour is what a tenant's hook may do, and how that may end. Whatever it
// does, its container can be killed meanwhile, and the engine be lost for so
// long that nobody knows any more: hooks.Lost and hooks.Unknown are always
// possible, and so is that it is skipped.
type behaviour struct {
	name   string
	weight int
	ends   []hooks.RunState
	exit   int // its code when it ended as hooks.Failed; -1: any
	leaves bool
}

// behaviours are those of the program in testdata/guest.
var behaviours = []behaviour{
	{name: "ok", weight: 40, ends: []hooks.RunState{hooks.Succeeded}},
	{name: "daemon", weight: 6, ends: []hooks.RunState{hooks.Succeeded}},
	{name: "fork", weight: 4, ends: []hooks.RunState{hooks.Succeeded}, leaves: true},
	{name: "session", weight: 4, ends: []hooks.RunState{hooks.Succeeded}, leaves: true},
	{name: "litter", weight: 2, ends: []hooks.RunState{hooks.Succeeded}},
	{name: "spam", weight: 4, ends: []hooks.RunState{hooks.Succeeded, hooks.TimedOut}},
	{name: "fail", weight: 4, ends: []hooks.RunState{hooks.Failed}, exit: 3},
	{name: "hang", weight: 4, ends: []hooks.RunState{hooks.TimedOut}},
	{name: "deaf", weight: 2, ends: []hooks.RunState{hooks.TimedOut}},
	{name: "storm", weight: 3, ends: []hooks.RunState{hooks.TimedOut}},
	{name: "hog", weight: 2, ends: []hooks.RunState{hooks.Failed, hooks.TimedOut}, exit: 137},
	{name: "kill-main", weight: 2, ends: []hooks.RunState{hooks.Succeeded, hooks.Failed}, exit: -1},
	{name: "kill-init", weight: 2, ends: []hooks.RunState{hooks.TimedOut, hooks.Failed}, exit: -1},
	{name: "kill-worker", weight: 2, ends: []hooks.RunState{hooks.TimedOut}},
	{name: "stop-worker", weight: 2, ends: []hooks.RunState{hooks.TimedOut}},
}

// behaviourOf is the behaviour of a tenant at a point.
func behaviourOf(tenant string, p hooks.Point) behaviour {
	parts := strings.Split(tenant, ".")
	name := map[hooks.Point]string{hooks.PostClaim: parts[1], hooks.PreRelease: parts[2]}[p]
	i := slices.IndexFunc(behaviours, func(b behaviour) bool { return b.name == name })
	return behaviours[i]
}

// isLate says whether an attempt has had all its time and was not over, though
// nothing in it waits: that happens to anybody on a busy machine, but not often.
func isLate(r hooks.Run) bool {
	limit := actTimeout
	if r.Hook == "act" {
		if slices.Contains(behaviourOf(r.Tenant, r.Point).ends, hooks.TimedOut) {
			return false
		}
	} else if limit = goneTimeout; r.Hook != "gone" {
		return false
	}
	return r.State == hooks.TimedOut && r.Duration >= float64(limit.Milliseconds())
}

// allows says whether an attempt of the hook that behaves may have ended so.
func (b behaviour) allows(r hooks.Run) error {
	always := []hooks.RunState{hooks.Lost, hooks.Unknown, hooks.Skipped}
	switch {
	case slices.Contains(always, r.State), isLate(r):
		return nil
	case !slices.Contains(b.ends, r.State):
		return fmt.Errorf("%s ended as %s (exit code %v, %s)", b.name, r.State, deref(r.ExitCode), r.Error)
	case r.State == hooks.Failed && b.exit >= 0 && deref(r.ExitCode) != b.exit:
		return fmt.Errorf("%s failed with exit code %v", b.name, deref(r.ExitCode))
	case r.State == hooks.Succeeded && b.leaves && r.Leaked == 0:
		return fmt.Errorf("%s left a process behind that nobody has seen", b.name)
	}
	return nil
}

func deref(code *int) int {
	if code == nil {
		return -1
	}
	return *code
}

// tenantPool is the tenants of one workload. Each is played by one at a time.
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

// addTenant adds a tenant with behaviours of its own for good.
func (c *tenantPool) addTenant(random *rand.Rand) {
	c.known++
	c.free = append(c.free, c.name(c.known, random))
}

// newTenantName is a tenant of a number with two behaviours.
func newTenantName(n int, random *rand.Rand) string {
	return fmt.Sprintf("tenant-%d.%s.%s", n, pick(random), pick(random))
}

// pick draws a behaviour by weight.
func pick(random *rand.Rand) string {
	total := 0
	for _, b := range behaviours {
		total += b.weight
	}
	n := random.IntN(total)
	for _, b := range behaviours {
		if n -= b.weight; n < 0 {
			return b.name
		}
	}
	panic("the weights do not add up")
}

// acquire draws a tenant that nobody plays.
func (c *tenantPool) acquire(random *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := random.IntN(len(c.free))
	tenant := c.free[i]
	c.free = slices.Delete(c.free, i, i+1)
	return tenant
}

// release has the tenant come again some time, or another one instead: in the
// long run everybody meets everybody's containers.
func (c *tenantPool) release(tenant string, random *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if random.IntN(3) == 0 {
		c.addTenant(random)
		return
	}
	c.free = append(c.free, tenant)
}
