package pool_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// syncedYAML is a pool of one container whose tenants' state is kept.
const syncedYAML = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 1 }
sync: { sink: { type: file } }
`

var errOutage = errors.New("no connection to the database")

// failingReads is a store whose first lists fail.
type failingReads struct {
	*store.DB
	containers, workloads *int // how many fail
}

func (f failingReads) Containers(ctx context.Context, filter pool.ContainerFilter) ([]pool.Container, error) {
	if *f.containers--; *f.containers >= 0 {
		return nil, errOutage
	}
	return f.DB.Containers(ctx, filter)
}

func (f failingReads) Workloads(ctx context.Context) ([]pool.Record, error) {
	if *f.workloads--; *f.workloads >= 0 {
		return nil, errOutage
	}
	return f.DB.Workloads(ctx)
}

// Errors of the database when a server begins to lead are retried: they do not
// end its loops.
func TestStorageErrorAtStartIsRetried(t *testing.T) {
	for name, db := range map[string]failingReads{
		"containers": {containers: &[]int{2}[0], workloads: new(int)},
		"workloads":  {containers: new(int), workloads: &[]int{2}[0]},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.NewStopped(t)
				h.Apply(poolYAML(1, 1))
				db := db
				db.DB = h.DB
				pools := pool.New(db, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, pools.Run(ctx))
				require.Equal(t, 1, h.Count("w", pool.Idle))
			})
		})
	}
}
