package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// A tenant whose hooks print much fills the database with at most the newest
// hundred of their outputs; older ones are reduced to an excerpt. Other tenants
// lose nothing, and small outputs are always kept. Lists have no output.
func runOutputs(t *testing.T, s Store) {
	ctx := t.Context()
	end := func(id, tenant string, stdout runtime.Output) {
		r := newAttempt(id, 1)
		r.Tenant = tenant
		require.NoError(t, s.RunStarted(ctx, r))
		r = endedRun(r, hooks.Failed, 1)
		r.Stdout, r.Stderr = stdout, runtime.Output{Head: "little", Total: 6}
		require.NoError(t, s.RunEnded(ctx, r))
	}
	whole := runtime.Output{Head: strings.Repeat("a", 4096), Tail: strings.Repeat("b", 4096), Total: 1 << 20, Truncated: true}
	small := runtime.Output{Head: "small", Total: 5}
	end("a-other", "bob", whole)
	end("a-small", "ann", small)
	for i := range 103 {
		end(fmt.Sprintf("r%03d", i), "ann", whole)
	}
	stdout := func(id string) runtime.Output {
		runs, err := s.Run(ctx, id)
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, "little", runs[0].Stderr.String())
		return runs[0].Stdout
	}
	short := runtime.Output{Tail: strings.Repeat("b", hooks.ExcerptBytes), Total: 1 << 20, Truncated: true}
	for id, want := range map[string]runtime.Output{
		"a-other": whole, "a-small": small, "r000": short, "r002": short, "r003": whole, "r102": whole,
	} {
		require.Equal(t, want, stdout(id), id)
	}

	list, err := s.Runs(ctx, hooks.RunFilter{Tenant: "ann", NoOutput: true})
	require.NoError(t, err)
	require.Len(t, list, 104)
	for _, r := range list {
		require.Zero(t, r.Stdout)
		require.Zero(t, r.Stderr)
		require.Equal(t, hooks.Failed, r.State)
	}

	require.NoError(t, s.Append(ctx, activity.Event{Type: activity.ClaimFailed, Message: strings.Repeat("x", 1<<20)}))
	all := events(t, s, activity.Filter{Types: []activity.Type{activity.ClaimFailed}}, 0)
	require.Len(t, all, 1)
	require.Less(t, len(all[0].Message), 9<<10)
}
