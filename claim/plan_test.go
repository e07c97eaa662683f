package claim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/workload"
)

// The rules for what is done to a container, each on its own: another tenant's
// container and one with outdated files are wiped, unless these can be updated;
// what is empty is seeded; a download needs an empty container, or an update;
// after a wipe and an update the main process is restarted.
func TestPlanRules(t *testing.T) {
	bools := []bool{false, true}
	for _, source := range []Source{Fresh, Affinity, Recycled} {
		for _, synced := range bools {
			for _, age := range []contents{{}, {stale: true}, {stale: true, known: true}, {known: true}} {
				stale := age.stale
				for _, policy := range []workload.Restart{"", workload.RestartOnChange, workload.RestartAlways, workload.RestartNever} {
					for _, changed := range bools {
						c := contents{source, synced, stale, age.known}
						p, err := newPlan(c, policy)
						if stale && (source != Affinity || !synced) || age.known && !stale {
							require.Error(t, err, "only the tenant's own snapshot is compared: %+v", c)
							continue
						}
						require.NoError(t, err)
						what := fmt.Sprintf("%+v, %q, changed %t", c, policy, changed)
						mustWipe := source == Recycled || stale && !age.known
						require.Equal(t, stale && age.known, p.update, what)
						require.Equal(t, mustWipe, p.wipe, what)
						require.Equal(t, mustWipe || source == Fresh && synced, p.seed, what)
						require.Equal(t, synced && (source == Fresh || mustWipe || p.update), p.download, what)
						require.Equal(t, mustWipe || p.update || policy == workload.RestartAlways || changed && policy != workload.RestartNever,
							p.needsRestart(changed), what)
					}
				}
			}
			for _, hasSeeds := range bools {
				require.Equal(t, synced && (source == Affinity || hasSeeds), contents{source: source, synced: synced}.needsCompare(hasSeeds))
			}
		}
	}
	_, err := newPlan(contents{}, workload.RestartAlways)
	require.Error(t, err, "a container of unknown origin")
}

// The plans that readers of the workload file's documentation expect.
func TestPlans(t *testing.T) {
	for _, c := range []struct {
		what     string
		contents contents
		policy   workload.Restart
		want     plan
	}{
		{"fresh", contents{Fresh, false, false, false}, workload.RestartOnChange, plan{restart: workload.RestartOnChange}},
		{"fresh with state", contents{Fresh, true, false, false}, workload.RestartNever, plan{seed: true, download: true, restart: workload.RestartNever}},
		{"own, current", contents{Affinity, true, false, false}, workload.RestartOnChange, plan{restart: workload.RestartOnChange}},
		{"own, outdated", contents{Affinity, true, true, true}, workload.RestartNever,
			plan{update: true, download: true, restart: workload.RestartAlways}},
		{"own, outdated and not to be updated", contents{Affinity, true, true, false}, workload.RestartNever,
			plan{wipe: true, seed: true, download: true, restart: workload.RestartAlways}},
		{"another tenant's", contents{Recycled, false, false, false}, workload.RestartNever, plan{wipe: true, seed: true, restart: workload.RestartAlways}},
		{"another tenant's, with state", contents{Recycled, true, false, false}, workload.RestartOnChange,
			plan{wipe: true, seed: true, download: true, restart: workload.RestartAlways}},
	} {
		got, err := newPlan(c.contents, c.policy)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.what)
	}
}
