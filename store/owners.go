package store

import (
	"context"
)

// Owned is what a server was doing: the ids of the records that it changed
// last, and whose flows are under way. What has to do with a container of a
// newer server than this one is left out: such a server takes it over.
type Owned struct {
	Containers []string // creating or destroying
	Claims     []string // pending or releasing
	Runs       []string // running
}

// whose is the condition for what is a server's, or of none that uses the
// database: what a server that is forgotten has left with a record that another
// one took over and did not live to end.
const whose = `(owner = $1 OR owner NOT IN (SELECT id FROM replicas))`

// madeNewer is the condition for a container that this server cannot speak to.
const madeNewer = `EXISTS (SELECT 1 FROM containers WHERE id = container AND protocol > $2)`

// owned are the queries for each kind of record.
var owned = []struct {
	what, query string
	ids         func(*Owned) *[]string
}{
	{
		"containers", `SELECT id FROM containers WHERE state IN ('creating', 'destroying') AND protocol <= $2 AND ` + whose + ` ORDER BY id`,
		func(o *Owned) *[]string { return &o.Containers },
	},
	{
		"claims", `SELECT id FROM claims WHERE state IN ('pending', 'releasing') AND ` + live + ` AND NOT ` + madeNewer + ` AND ` + whose + ` ORDER BY id`,
		func(o *Owned) *[]string { return &o.Claims },
	},
	{
		"hook runs", `SELECT DISTINCT id FROM runs WHERE ` + running + ` AND NOT ` + madeNewer + ` AND ` + whose + ` ORDER BY id`,
		func(o *Owned) *[]string { return &o.Runs },
	},
}

// Owned lists what a server was doing, and what is nobody's: once it was taken
// over, what is to be finished. The id is empty for one that had not
// registered.
func (db *DB) Owned(ctx context.Context, replica string) (Owned, error) {
	var o Owned
	for _, kind := range owned {
		ids, err := list(ctx, db, kind.what+" of server "+replica, kind.query, []any{clean(replica), db.speaks.Current}, scanText)
		if err != nil {
			return Owned{}, err
		}
		*kind.ids(&o) = ids
	}
	return o, nil
}
