package store

import (
	"context"
)

// Owned is what a server was doing: the ids of the records that it changed
// last, and whose flows are under way.
type Owned struct {
	Containers []string // creating or destroying
	Claims     []string // pending or releasing
	Runs       []string // running
}

// owned are the queries for each kind of record.
var owned = []struct {
	what, query string
	ids         func(*Owned) *[]string
}{
	{
		"containers", `SELECT id FROM containers WHERE state IN ('creating', 'destroying') AND owner = $1 ORDER BY id`,
		func(o *Owned) *[]string { return &o.Containers },
	},
	{
		"claims", `SELECT id FROM claims WHERE state IN ('pending', 'releasing') AND ` + live + ` AND owner = $1 ORDER BY id`,
		func(o *Owned) *[]string { return &o.Claims },
	},
	{
		"hook runs", `SELECT DISTINCT id FROM runs WHERE ` + running + ` AND owner = $1 ORDER BY id`,
		func(o *Owned) *[]string { return &o.Runs },
	},
}

// Owned lists what a server was doing: once it was taken over, what is to be
// finished. The id is empty for one that had not registered.
func (db *DB) Owned(ctx context.Context, replica string) (Owned, error) {
	var o Owned
	for _, kind := range owned {
		ids, err := list(ctx, db, kind.what+" of server "+replica, kind.query, []any{clean(replica)}, scanText)
		if err != nil {
			return Owned{}, err
		}
		*kind.ids(&o) = ids
	}
	return o, nil
}
