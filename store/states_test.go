package store

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store/postgrestest"
)

// The schema of each dialect allows exactly the states of the program, and its
// indexes on live claims have exactly the live ones.
func TestSchemaStates(t *testing.T) {
	for dialect, d := range map[string]struct {
		open          func(t *testing.T) *DB
		checks, index string // the texts, by a table's or an index's name
	}{
		"sqlite": {openTest, `SELECT sql FROM sqlite_master WHERE name = $1`, `SELECT sql FROM sqlite_master WHERE name = $1`},
		"postgres": {
			func(t *testing.T) *DB {
				db, err := Open(t.Context(), postgrestest.Schema(t))
				require.NoError(t, err)
				t.Cleanup(func() { _ = db.Close() })
				return db
			},
			`SELECT string_agg(pg_get_constraintdef(oid), '; ') FROM pg_constraint WHERE conrelid = to_regclass($1)`,
			`SELECT indexdef FROM pg_indexes WHERE indexname = $1 AND schemaname = current_schema()`,
		},
	} {
		t.Run(dialect, func(t *testing.T) {
			if dialect == "postgres" {
				postgrestest.Server(t)
			}
			db := d.open(t)
			text := func(query, name string) string {
				text, err := queryRow(t.Context(), db, scanText, query, name)
				require.NoError(t, err)
				return text
			}
			require.ElementsMatch(t, textsOf(pool.States()), listedStates(t, text(d.checks, "containers"), string(pool.Creating)))
			require.ElementsMatch(t, textsOf(claim.States()), listedStates(t, text(d.checks, "claims"), string(claim.Failed)))
			live := []string{}
			for _, s := range claim.States() {
				if s.IsLive() {
					live = append(live, string(s))
				}
			}
			for _, index := range []string{"claims_live", "claims_container"} {
				require.ElementsMatch(t, live, listedStates(t, text(d.index, index), string(claim.Pending)), index)
			}
			require.ElementsMatch(t, live, listedStates(t, liveCondition, string(claim.Pending)))
		})
	}
}

// listedStates returns the list of states in a text that contains the given one.
func listedStates(t *testing.T, text, state string) []string {
	t.Helper()
	for _, list := range regexp.MustCompile(`state (?:IN \(|= ANY \(+ARRAY\[)([^)\]]*)`).FindAllStringSubmatch(text, -1) {
		if strings.Contains(list[1], "'"+state+"'") {
			var states []string
			for _, quoted := range regexp.MustCompile(`'([a-z_]*)'`).FindAllStringSubmatch(list[1], -1) {
				states = append(states, quoted[1])
			}
			return states
		}
	}
	require.Fail(t, "no list of states", "with %s in %s", state, text)
	return nil
}

func textsOf[S ~string](states []S) (texts []string) {
	for _, s := range states {
		texts = append(texts, string(s))
	}
	return texts
}
