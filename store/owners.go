package store

import (
	"context"
)

// OwnedRecords lists the work of a server: the ids of the records that it
// changed last and whose flows are in progress. Records that concern a
// container of a newer server are left out: such a server takes them over.
type OwnedRecords struct {
	Containers []string // creating or destroying
	Claims     []string // pending or releasing
	Runs       []string // running
	Waits      []string // whose hooks run
}

// ownedByCondition is the condition for the records of a server, or of a server
// that no longer uses the database. Such a record remains when a server took
// over from its owner and exited before it finished.
const ownedByCondition = `(owner = $1 OR owner NOT IN (SELECT id FROM replicas))`

// newerProtocolCondition is the condition for a container whose protocol this
// server does not support.
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
	{
		"waits", `SELECT id FROM waits WHERE ` + hookedWait + ` AND NOT ` + newerProtocolCondition + ` AND ` + ownedByCondition + ` ORDER BY id`,
		func(o *OwnedRecords) *[]string { return &o.Waits },
	},
}

// OwnedBy lists the work of a server, and the work without a registered owner.
// After a takeover the caller finishes it. The id is empty for a server that
// had not registered.
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
