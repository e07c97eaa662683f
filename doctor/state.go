package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/snapshot"
)

// stateProblem is a cause that tenants' state cannot be read, and what to do. The
// records of failures have its text.
type stateProblem struct {
	cause         error
	claim, upload string // the hint after a failed claim, and after a failed release
}

const (
	olderKeyHint = "start the server with a --state-key-file that also has the older key: the first key of the file encrypts, all of them decrypt"
	formatHint   = "start a server of the version that has stored it, or of a later one"
	verifyHint   = "`hostler snapshots verify --workload %[1]s --tenant %[2]s` lists what is damaged: bring these objects back, such as from a copy of the sink"
)

// stateProblems are those that no retry ends, the first that applies first.
var stateProblems = []stateProblem{
	{snapshot.ErrUnknownKey, olderKeyHint, olderKeyHint},
	{snapshot.ErrFormat, formatHint, formatHint},
	{snapshot.ErrCorrupt, verifyHint + ", or make an older one current with `hostler snapshots restore SNAPSHOT --workload %[1]s --tenant %[2]s`", verifyHint},
}

// stateProblemOf returns why the state of a claim could not be read; false if it
// failed for another reason.
func stateProblemOf(c claim.Claim) (stateProblem, bool) {
	why := strings.Join(append(slices.Clone(c.ReasonChain), c.Reason), ": ")
	i := slices.IndexFunc(stateProblems, func(p stateProblem) bool { return strings.Contains(why, p.cause.Error()) })
	if i < 0 {
		return stateProblem{}, false
	}
	return stateProblems[i], true
}

// hintFor fills in the owner of the state.
func hintFor(hint string, c claim.Claim) string {
	if !strings.Contains(hint, "%") {
		return hint
	}
	return fmt.Sprintf(hint, c.Workload, c.Tenant)
}

// maxFailedClaims is how many failed claims are examined, the newest first.
const maxFailedClaims = 200

// unreadableState finds tenants whose last claim failed because their current
// snapshot cannot be read. A later claim ends the finding.
func (v *examination) unreadableState(ctx context.Context) error {
	failed, err := v.Records.Claims(ctx, claim.Filter{States: []claim.State{claim.Failed}, Newest: true, Limit: maxFailedClaims})
	if err != nil {
		return err
	}
	pools, err := v.Pools.Statuses(ctx)
	if err != nil {
		return err
	}
	seen := map[[2]string]bool{}
	for _, c := range failed {
		owner := [2]string{c.Workload, c.Tenant}
		problem, ok := stateProblemOf(c)
		isLast := !seen[owner]
		seen[owner] = true
		exists := slices.ContainsFunc(pools, func(s pool.Status) bool { return s.Workload == c.Workload })
		if !ok || !isLast || !exists {
			continue
		}
		isCurrent, err := v.isLastClaim(ctx, c)
		if err != nil {
			return err
		}
		if !isCurrent {
			continue
		}
		f := v.describeClaim(c)
		f.Severity = Error
		f.Message = fmt.Sprintf("the state of tenant %s of %s cannot be read, and its claim %s failed: %s", c.Tenant, c.Workload, c.ID, c.Reason)
		f.Hint = hintFor(problem.claim, c) + "; the tenant's next claim reads it again"
		v.addFinding(f)
	}
	return nil
}

// isLastClaim reports whether a claim is the tenant's last one on its workload.
func (v *examination) isLastClaim(ctx context.Context, c claim.Claim) (bool, error) {
	last, err := v.Records.Claims(ctx, claim.Filter{Workload: c.Workload, Tenant: c.Tenant, States: claim.States(), Newest: true, Limit: 1})
	return len(last) == 1 && last[0].ID == c.ID, err
}
