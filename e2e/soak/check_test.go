package soak

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// checkVisits checks the hooks in a container of an attacked workload, and returns
// what is wrong.
func (s *soak) checkVisits(c pool.Container, runs []hooks.Run) []string {
	var failures []string
	fail := func(r hooks.Run, format string, args ...any) {
		failures = append(failures, fmt.Sprintf("REACHED: container %s of %s, %s of tenant %s, claim %s: %s, in:%s",
			c.ID, c.Workload, r.Point, r.Tenant, r.Claim, fmt.Sprintf(format, args...), formatRuns(runs)))
	}
	unused := ""
	for _, r := range runs {
		s.counters.add("hooks: %s, %s: %s", r.Point, r.Hook, r.State)
		f := readFindings(r)
		if r.Point == hooks.PostCreate {
			unused = f.facts
		}
		if f.counted && r.Point == hooks.PostClaim {
			s.visits[r.Claim] = f.visits
		}
		if attack := attackOf(r.Tenant); attack != "" {
			if f.attack != "" {
				s.counters.add("attacks: %s: %s", s.classes[attack], f.attack)
			}
			// An attack that starts before its hook is found by its own tenant.
			if len(f.found) > 0 && !strings.HasPrefix(attack, "return") {
				fail(r, "it found %q", f.found)
			}
			continue
		}
		fine := []hooks.RunState{hooks.Succeeded, hooks.Lost, hooks.Unknown, hooks.Skipped}
		switch {
		case len(f.found) > 0:
			fail(r, "it found %q", f.found)
		case r.State == hooks.TimedOut && r.Duration >= float64(visitTimeout.Milliseconds()):
			s.counters.add("honest tenants: late hooks")
		case !slices.Contains(fine, r.State):
			fail(r, "its hook ended as %s", r.State)
		case r.State == hooks.Succeeded && r.Hook == "visit" && f.answer != wantAnswer(r):
			fail(r, "its hook's answer is wrong: %q", f.answer)
		case f.facts != "" && unused != "" && r.Point == hooks.PostClaim:
			s.counters.add("honest tenants: containers compared with their initial state")
			if differ := differences(unused, f.facts); len(differ) > 0 {
				fail(r, "the container has changed: %q", differ)
			}
		}
	}
	if err := hasRepeatedRun(runs); err != nil {
		failures = append(failures, fmt.Sprintf("container %s of %s: %v, in:%s", c.ID, c.Workload, err, formatRuns(runs)))
	}
	return failures
}

// wantAnswer returns the answer to this run that only the image's program gives.
func wantAnswer(r hooks.Run) string {
	number, _, _ := strings.Cut(r.Tenant, ".")
	sum := sha256.Sum256([]byte("attacker\x00" + r.ID + "\x00" + number + "\x00" + string(r.Point)))
	return hex.EncodeToString(sum[:])
}

// volatileFacts are the facts that differ without an attack: times, which the
// suite of attacks compares, the input of a hook, the tenant's state, and closed
// connections, which are listed for a minute.
var volatileFacts = regexp.MustCompile(`^(mtime|ctime|environment|space|process|descriptor|(file|attribute .*|flags|project) /data(/state.*)?$|text /proc/net/(tcp|udp|raw)6?$)`)

// differences compares a container's facts with those before its first tenant.
func differences(unused, now string) []string {
	was, err := readFacts(unused)
	is, err2 := readFacts(now)
	if err != nil || err2 != nil {
		return []string{fmt.Sprintf("unreadable facts: %v %v", err, err2)}
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	var differ []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !volatileFacts.MatchString(key) && was[key] != is[key] {
			differ = append(differ, fmt.Sprintf("%s was %.200q and is %.200q", key, was[key], is[key]))
		}
	}
	return differ[:min(len(differ), 8)]
}

func readFacts(text string) (map[string]string, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return nil, err
	}
	var r struct{ Facts map[string]string }
	err = json.NewDecoder(z).Decode(&r)
	return r.Facts, err
}

// uncleanReason is in the reason of containers whose wipe could not be verified.
const uncleanReason = "container wipe could not be verified: "

// numbers match what differs, in addition to names, in reasons of one kind.
var numbers = regexp.MustCompile(`[0-9]+|"[^"]*"?`)

// publishedEvents is the counter of events that tenants' programs have published.
const publishedEvents = "published: events"

// tallyEvent counts what tenants' programs have published, and the reasons for which
// containers are destroyed.
func (s *soak) tallyEvent(e activity.Event) {
	if e.Untrusted {
		s.counters.add(publishedEvents)
	}
	if e.Type != activity.ContainerDestroying {
		return
	}
	why := names.ReplaceAllString(e.Message, "X")
	kind := "destroyed"
	if _, cause, ok := strings.Cut(why, uncleanReason); ok {
		kind, why = "wipe not verified", cause
	}
	why = numbers.ReplaceAllString(why, "N")
	s.counters.add("%s: %s", kind, why[:min(len(why), 90)])
}
