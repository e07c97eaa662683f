package store

import (
	"context"
)

// OwnedRecords is what a server was doing: the ids of the records that it changed
// last, and whose flows are under way. What has to do with a container of a
// newer server than this one is left out: such a server takes it over.
type OwnedRecords struct {
	Containers []string // creating or destroying
	Claims     []string // pending or releasing
	Runs       []string // running
}

// ownedByCondition is the condition for what is a server's, or of none that uses the
// database: what a server that is forgotten has left with a record that another
// one took over and did not live to end.
const ownedByCondition = `(owner = $1 OR owner NOT IN (SELECT id FROM replicas))`

// newerProtocolCondition is the condition for a container that this server cannot speak to.
const newerProtocolCondition = `EXISTS (SELECT 1 FROM containers WHERE id = container AND protocol > $2)`

// ownedQueries are the queries for each kind of record.
var ownedQueries = []struct {
	what, query string
	ids         func(*OwnedRecords) *[]string
}{
	{
		"containers", `SELECT id FROM containers WHERE state IN ('creating', 'destroying') AND protocol <= $2 AND ` + ownedByCondition + ` ORDER BY id`,
		func(o *OwnedRecords) *[]string { return &o.Containers },
	},
	{
		"claims", `SELECT id FROM claims WHERE state IN ('pending', 'releasing') AND ` + liveCondition + ` AND NOT ` + newerProtocolCondition + ` AND ` + ownedByCondition + ` ORDER BY id`,
		func(o *OwnedRecords) *[]string { return &o.Claims },
	},
	{
		"hook runs", `SELECT DISTINCT id FROM runs WHERE ` + runningCondition + ` AND NOT ` + newerProtocolCondition + ` AND ` + ownedByCondition + ` ORDER BY id`,
		func(o *OwnedRecords) *[]string { return &o.Runs },
	},
}

// OwnedBy lists what a server was doing, and what is nobody's: once it was taken
// over, what is to be finished. The id is empty for one that had not
// registered.
func (db *DB) OwnedBy(ctx context.Context, replica string) (OwnedRecords, error) {
	var o OwnedRecords
	for _, kind := range ownedQueries {
		ids, err := queryAll(ctx, db, kind.what+" of server "+replica, kind.query, []any{sanitizeText(replica), db.protocols.Current}, scanText)
		if err != nil {
			return OwnedRecords{}, err
		}
		*kind.ids(&o) = ids
	}
	return o, nil
}
