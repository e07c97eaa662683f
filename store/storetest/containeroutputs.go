package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
)

// The output of a container that failed ends with its record. Of those of a tenant
// the newest hundred stay whole. What was printed for another tenant than the
// container's is not kept.
func containerOutputs(t *testing.T, s Store) {
	ctx := t.Context()
	whole := runtime.Output{Tail: strings.Repeat("b", 8192), Total: 1 << 20, Truncated: true}
	fail := func(o pool.Output) string {
		id := addContainer(t, s, rev)
		m := destroyingTransition(id)
		m.Output = &o
		mustUpdateContainer(t, s, m)
		mustUpdateContainer(t, s, destroyedTransition(id))
		return id
	}
	var ids []string
	for range 103 {
		ids = append(ids, fail(pool.Output{Main: whole, Check: runtime.Output{Head: "no\x00 \xff", Total: 5}}))
	}
	_, err := s.Output(ctx, fail(pool.Output{Tenant: "ann", Main: whole}))
	require.ErrorIs(t, err, pool.ErrNoOutput)
	short := runtime.Output{Tail: strings.Repeat("b", hooks.ExcerptBytes), Total: 1 << 20, Truncated: true}
	for i, want := range map[int]runtime.Output{0: short, 2: short, 3: whole, 102: whole} {
		o, err := s.Output(ctx, ids[i])
		require.NoError(t, err)
		require.Equal(t, want, o.Main, i)
		require.Equal(t, "no\x00 \uFFFD", o.Check.Head)
	}
	_, err = s.Prune(ctx, store.Retention{Before: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	for _, id := range ids {
		_, err := s.Output(ctx, id)
		require.ErrorIs(t, err, pool.ErrNoOutput)
	}
}
