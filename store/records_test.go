package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// Every field of a record is stored and read back, in a column of its own, and
// an update writes exactly the mutable ones.
func TestEveryFieldIsStored(t *testing.T) {
	t.Run("containers", func(t *testing.T) {
		c := pool.Container{}
		fill(t, &c, 1)
		c.State, c.Health, c.Forced, c.Output = pool.Destroying, pool.Healthy, pool.ForcedNow, pool.OutputWanted
		next := c
		fill(t, &next, 2)
		next.ID, next.State, next.Health, next.Forced, next.Output = c.ID, pool.Creating, pool.Unhealthy, pool.ForcedDone, pool.OutputKept
		checkStored(t, containerColumns, insertContainer, updateContainer, selectContainers, c, next, "owner")
	})
	t.Run("claims", func(t *testing.T) {
		c := claim.Claim{}
		fill(t, &c, 1)
		c.State, c.Source, c.FailureReason = claim.ReleaseFailed, claim.Affinity, claim.FailedBySink
		next := c
		fill(t, &next, 2)
		next.State, next.Source, next.FailureReason = claim.Releasing, claim.Fresh, claim.FailedByTenant
		next.ID = c.ID
		for _, c := range []*claim.Claim{&c, &next} {
			c.Health, c.ContainerFence, c.EventCommands, c.Forced = "", 0, false, "" // it has no container
			c.IdleExpiresAt = nil                                                    // depends on the workload
		}
		db := checkInserted(t, claimColumns, insertClaim, selectClaims, c, "key:a")
		checkUpdated(t, db, claimColumns, updateClaim, selectClaims, c, next)
	})
	t.Run("runs", func(t *testing.T) {
		r := hooks.Run{}
		fill(t, &r, 1)
		r.State = hooks.Failed
		next := r
		fill(t, &next, 2)
		next.ID, next.Attempt, next.State = r.ID, r.Attempt, hooks.Lost
		checkStored(t, runColumns, insertRun, updateRun, selectRuns, r, next, 0)
	})
	t.Run("deliveries", func(t *testing.T) {
		d := delivery.Delivery{}
		fill(t, &d, 1)
		d.State = delivery.Failed
		next := d
		fill(t, &next, 2)
		next.ID, next.State = d.ID, delivery.Discarded
		checkStored(t, deliveryColumns, insertDelivery, updateDelivery, selectDeliveries, d, next, "owner")
	})
	t.Run("workloads", func(t *testing.T) {
		r := pool.Record{}
		fill(t, &r, 1)
		next := r
		fill(t, &next, 2)
		next.ID = r.ID
		checkStored(t, workloadColumns, putWorkload, workloadColumns.update("workloads"), selectWorkloads, r, next)
	})
	t.Run("events", func(t *testing.T) {
		e := activity.Event{}
		fill(t, &e, 1)
		e.Seq, e.Data = 0, json.RawMessage(`{"a":1}`) // the first number
		checkInserted(t, eventColumns, insertEvent, selectEvents, e)
	})
}

// checkInserted inserts a record into an empty table and reads it.
func checkInserted[T any](t *testing.T, c columns[T], insert statement[T], query string, record T, further ...any) *DB {
	t.Helper()
	db := openTest(t)
	require.NoError(t, db.writer.update(t.Context(), func(tx *tx) error { return execLater(tx, insert, &record, further...) }))
	got, err := queryRow(t.Context(), db, c.scan, query)
	require.NoError(t, err)
	require.Equal(t, record, got)
	return db
}

// checkStored inserts a record, updates it to the next one, and reads it.
func checkStored[T any](t *testing.T, c columns[T], insert, update statement[T], query string, record, next T, further ...any) {
	t.Helper()
	checkUpdated(t, checkInserted(t, c, insert, query, record, further...), c, update, query, record, next, further...)
}

// checkUpdated updates a record to the next one, and reads it.
func checkUpdated[T any](t *testing.T, db *DB, c columns[T], update statement[T], query string, record, next T, further ...any) {
	t.Helper()
	require.NoError(t, db.writer.update(t.Context(), func(tx *tx) error { return execLater(tx, update, &next, further...) }))
	got, err := queryRow(t.Context(), db, c.scan, query)
	require.NoError(t, err)
	for _, column := range c {
		want := &next
		if column.use != mutable {
			want = &record
		}
		require.Equal(t, mustArgument(t, column.field(want)), mustArgument(t, column.field(&got)), column.name)
	}
}

func mustArgument(t *testing.T, field any) any {
	t.Helper()
	v, err := argument(field)
	require.NoError(t, err)
	return v
}

// fill sets every field to a value of its own; n makes two records different.
func fill(t *testing.T, record any, n int) {
	t.Helper()
	i := 0
	fillValue(t, reflect.ValueOf(record).Elem(), n, &i)
}

func fillValue(t *testing.T, v reflect.Value, n int, i *int) {
	t.Helper()
	*i++
	if _, ok := v.Interface().(time.Time); ok {
		v.Set(reflect.ValueOf(time.Unix(int64(n), int64(*i)).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d %d", n, *i))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n*1000 + *i))
	case reflect.Float64:
		v.SetFloat(float64(n) + float64(*i)/1000)
	case reflect.Bool:
		v.SetBool(n%2 == 1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(t, v.Elem(), n, i)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(fmt.Append(nil, n, " ", *i))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(t, v.Index(0), n, i)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fillValue(t, value, n, i)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(fmt.Sprint("key ", *i)), value)
	case reflect.Struct:
		for f := range v.NumField() {
			fillValue(t, v.Field(f), n, i)
		}
	default:
		require.Fail(t, "a field of a kind that this test does not know", v.Type().String())
	}
}

// The containers whose workload has no record are found, in both databases. Only an
// older server can have added one.
func TestContainersOfNoWorkload(t *testing.T) {
	for _, e := range databases {
		t.Run(e.name, func(t *testing.T) {
			db, err := Open(t.Context(), e.dsn(t))
			require.NoError(t, err)
			defer db.Close() //nolint:errcheck // the test is over
			addIdleContainer(t, db, "kept", "a")
			addIdleContainer(t, db, "lost", "b")
			require.NoError(t, db.writer.update(t.Context(), func(t *tx) error { return t.execLater(`DELETE FROM workloads WHERE id = 'lost'`) }))
			for state, want := range map[pool.State]int{pool.Idle: 1, pool.Claimed: 0} {
				found, err := db.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{state}, NoWorkload: true})
				require.NoError(t, err)
				require.Len(t, found, want, state)
				for _, c := range found {
					require.Equal(t, "b", c.ID)
				}
			}
		})
	}
}
