package soak

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// attackedFile is the common part of the workloads whose tenants attack. Their
// program is the attacker of package runtimetest: the main process performs the
// attacks, and hooks send it the order and search for traces of others.
const attackedFile = `
id: ID
image: IMAGE-USER
command: [/app/server, serve]
user: "USER:USER"
environment: { GENERATION: "NUMBER" }
deploy: { resources: { limits: { memory: 256m, pids: 256, cpus: 0.5 } } }
healthcheck: { test: [CMD, /attacker, exit, "0"], interval: 10s, timeout: 8s, retries: 3, start_period: 5s }
volumes: { state: { target: /data }, custom: [{ name: srv, target: /srv/app/state }, { name: ro, target: /ro, read_only: true }] }
sync: { sink: { type: file }, mappings: [{ path: state }], max_size: 64m, max_files: 5000, policy: { manual: true } }
hooks:
  post_create: [{ name: visit, command: [/attacker, visit], timeout: 30s }]
  post_claim: [{ name: visit, command: [/attacker, visit], timeout: 30s }]
  pre_release: [{ name: visit, command: [/attacker, visit], timeout: 10s }]
  pre_destroy: [{ name: gone, command: [/attacker, exit, "0"], timeout: 5s }]
`

// visitTimeout is the timeout of the hooks above, except pre_release's.
const visitTimeout = 30 * time.Second

// attackRow is an attack in the list of the program attacker.
type attackRow struct{ Name, Class, User string }

// attackList returns the attacks of the program attacker, or those of them whose
// name or class HOSTILE_ONLY matches.
func attackList(t *testing.T) []attackRow {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), runtimetest.BuildAttacker(t), "list").Output()
	require.NoError(t, err)
	var all []attackRow
	require.NoError(t, json.Unmarshal(out, &all))
	only, err := regexp.Compile("^(" + cmp.Or(os.Getenv("HOSTILE_ONLY"), ".*") + ")$")
	require.NoError(t, err, "HOSTILE_ONLY")
	all = slices.DeleteFunc(all, func(a attackRow) bool { return !only.MatchString(a.Name) && !only.MatchString(a.Class) })
	require.NotEmpty(t, all, "attacks that HOSTILE_ONLY chooses")
	return all
}

// attackedWorkloads returns a workload for each configuration of containers.
func attackedWorkloads(attacks []attackRow, random *rand.Rand) []*workload {
	kinds := []struct {
		id, pool string
		user     int
		readOnly bool
	}{
		{"root-writable", "reuse: wipe", 0, false},
		{"root-read-only", "reuse: wipe", 0, true},
		{"other-writable", "reuse: wipe", 1001, false},
		{"other-read-only", "reuse: wipe", 1001, true},
		{"root-same-tenant", "reuse: same_tenant", 0, false},
	}
	var all []*workload
	for _, k := range kinds {
		user := map[int]string{0: "root", 1001: "other"}[k.user]
		mine := slices.DeleteFunc(slices.Clone(attacks), func(a attackRow) bool { return a.User != "" && a.User != user })
		text := strings.NewReplacer("ID", k.id, "USER", fmt.Sprint(k.user)).Replace(attackedFile)
		text += fmt.Sprintf("read_only: %t\npool: { min_idle: 1, max_size: 4, idle_timeout: 10s, release_failed_ttl: 10s, %s }\n", k.readOnly, k.pool)
		all = append(all, &workload{
			id: k.id, file: text, minIdle: 1, attacked: true, maxHold: 3000, check: []string{"/attacker", "exit", "0"},
			tenants: newTenantPool(clientCount+6, random, func(n int, random *rand.Rand) string { return attackerName(n, mine, random) }),
		})
	}
	return all
}

// attackerName returns the name of a tenant: an honest one, or one with a random
// attack at a random time after one of its hooks. Some attack during the release.
func attackerName(n int, attacks []attackRow, random *rand.Rand) string {
	if random.IntN(3) == 0 {
		return fmt.Sprintf("%d.honest", n)
	}
	point, after := "c", 0
	if random.IntN(2) == 0 {
		after = random.IntN(3500)
	}
	if random.IntN(3) == 0 {
		point, after = "r", after/5
	}
	return fmt.Sprintf("%d.%s.%s%d", n, attacks[random.IntN(len(attacks))].Name, point, after)
}

// attackOf returns the attack of a tenant of an attacked workload; empty for an
// honest one.
func attackOf(tenant string) string {
	parts := strings.Split(tenant, ".")
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

// isAttacker reports whether a tenant attacks.
func (w *workload) isAttacker(tenant string) bool { return w.attacked && attackOf(tenant) != "" }

// isHonest reports whether a tenant of an attacked workload is honest.
func (w *workload) isHonest(tenant string) bool { return w.attacked && attackOf(tenant) == "" }

// honestVisit is a claim of an honest tenant that was released.
type honestVisit struct {
	claim         string
	calm, discard bool
}

// honest records the claims of honest tenants.
type honest struct {
	visits  map[string][]honestVisit // by workload and tenant, in order
	denied  []string                 // claims that failed while there were only attacks
	slowest map[string]time.Duration
}

// recordGranted records a successful claim.
func (s *soak) recordGranted(r request, took time.Duration) {
	s.recordDuration(r, "claim", took)
	if r.workload.isHonest(r.tenant) {
		s.counters.add("honest tenants: claims active%s", s.phase())
	}
	if r.workload.isAttacker(r.tenant) {
		s.counters.add("hostile tenants: claims active%s", s.phase())
	}
}

// recordDenied records a failed claim. Without disruptions there is no reason for
// one of an honest tenant.
func (s *soak) recordDenied(r request, reason string, err error) {
	if !r.workload.isHonest(r.tenant) {
		return
	}
	s.counters.add("honest tenants: claims failed%s: %s", s.phase(), reason)
	if s.onlyTenantFaults.Load() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.honest.denied = append(s.honest.denied, fmt.Sprintf("tenant %s of %s: %v", r.tenant, r.workload.id, err))
	}
}

// recordReleased records a release.
func (s *soak) recordReleased(r request, c client.Claim, discard bool, took time.Duration) {
	s.recordDuration(r, "release", took)
	if !r.workload.isHonest(r.tenant) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.workload.id + " " + r.tenant
	s.honest.visits[key] = append(s.honest.visits[key], honestVisit{c.ID, s.onlyTenantFaults.Load(), discard})
}

// phase returns a suffix for counters while there are only attacks.
func (s *soak) phase() string {
	if s.onlyTenantFaults.Load() {
		return ", only attacks"
	}
	return ""
}

// recordDuration records the maximum durations while there are only attacks.
func (s *soak) recordDuration(r request, what string, took time.Duration) {
	if !s.onlyTenantFaults.Load() || !r.workload.attacked {
		return
	}
	if what += " of an honest tenant"; r.workload.isAttacker(r.tenant) {
		what = strings.Replace(what, "an honest", "a hostile", 1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.honest.slowest[what] = max(s.honest.slowest[what], took)
}

// attackBound is how long a hostile tenant may delay others after the request of
// its release: for its hook, for the upload of its state, and until an
// unresponsive container is destroyed.
const attackBound = 2 * time.Minute

// requireHonestServed checks the claims of honest tenants while there were only
// attacks.
func (s *soak) requireHonestServed(t *testing.T) {
	t.Helper()
	t.Logf("maximum durations with only attacks: %v", s.honest.slowest)
	require.Empty(t, s.honest.denied, "claims of honest tenants that failed")
	for what, took := range s.honest.slowest {
		require.Less(t, took, attackBound, what)
	}
}

// requireState checks that honest tenants found their state of the claim before.
func (s *soak) requireState(t *testing.T, found map[string]int) {
	t.Helper()
	checked := 0
	for tenant, visits := range s.honest.visits {
		for i := 1; i < len(visits); i++ {
			before, after := visits[i-1], visits[i]
			was, ok := found[before.claim]
			is, ok2 := found[after.claim]
			if !ok || !ok2 || before.discard {
				continue
			}
			checked++
			require.LessOrEqual(t, is, was+1, "%s, claim %s", tenant, after.claim)
			require.GreaterOrEqual(t, is, was, "%s, claim %s has lost uploaded state", tenant, after.claim)
			if before.calm && after.calm {
				require.Equal(t, was+1, is, "%s, claim %s: the release before has uploaded the state", tenant, after.claim)
			}
		}
	}
	s.counters.addN(checked, "honest tenants: claims with the state of the claim before")
}

// requireQuotaIsFair claims and releases for tenants whose uploads wait for the
// memory quota: no tenant holds it indefinitely.
func (s *soak) requireQuotaIsFair(t *testing.T) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	begun := time.Now()
	for _, w := range s.workloads {
		if !w.attacked {
			continue
		}
		for i := range 2 {
			require.NoError(t, s.claimAndRelease(t.Context(), random, w, fmt.Sprintf("%d.honest", 1_000_000+i)))
		}
	}
	t.Logf("uploads of tenants at the end: %s", time.Since(begun))
}

// findings are what hooks of attacked workloads print.
type findings struct {
	found   []string
	attack  string // its result
	visits  int
	counted bool // whether visits is set
	answer  string
	facts   string
}

func readFindings(r hooks.Run) findings {
	var f findings
	for line := range strings.Lines(r.Stdout.String()) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "FOUND":
			f.found = append(f.found, rest)
		case "ATTACK":
			_, rest, _ = strings.Cut(rest, " ")
			f.attack, _, _ = strings.Cut(rest, ":")
		case "VISITS":
			_, err := fmt.Sscan(rest, &f.visits)
			f.counted = err == nil
		case "ANSWER":
			f.answer = rest
		case "FACTS":
			f.facts = rest
		}
	}
	return f
}
