package gate

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
)

// A claim has at most 16 checks at once, a server 64. Another one waits at most as
// long as its hook may take, and is then refused.
func TestChecksAreBounded(t *testing.T) {
	b := newBench(t)
	arrived, leave := make(chan struct{}), make(chan struct{})
	url := receive(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-leave
		reply(200, `{"decision": "allow"}`)(w, r)
	})
	g := grant(t, asks(url, ", timeout: 2m"))
	var checks sync.WaitGroup
	start := func(id string) {
		g := g
		g.Claim.ID = id
		checks.Go(func() { _ = b.Exec(context.WithoutCancel(t.Context()), g, list) })
	}
	for range maxChecksOfClaim {
		start("claim-1")
	}
	for range maxChecksOfClaim {
		<-arrived
	}
	hurried := grant(t, asks(url, ", timeout: 20ms"))
	denied := requireDenied(t, b.Exec(t.Context(), hurried, list))
	require.Equal(t, "it could not decide: too many requests wait for a decision", denied.Message)
	for i := range maxChecks - maxChecksOfClaim {
		start(fmt.Sprint("other-", i))
	}
	for range maxChecks - maxChecksOfClaim {
		<-arrived
	}
	hurried.Claim.ID = "new"
	require.ErrorAs(t, b.Exec(t.Context(), hurried, list), new(*access.DeniedError))
	close(leave)
	checks.Wait()
	require.Empty(t, b.slots.claims, "nothing is kept of claims without checks")
	require.Empty(t, b.slots.all)
}

// A tenant that is refused again and again is recorded at a bounded rate.
func TestRecordsAreBounded(t *testing.T) {
	b := newBench(t)
	now := time.Now()
	b.records.now = func() time.Time { return now }
	g := grant(t, "hooks: {exec.before: [guard_destructive]}")
	refuse := func(n int) {
		for range n {
			require.ErrorAs(t, b.Exec(t.Context(), g, access.CommandUse{Args: []string{"rm", "-rf", "/"}}), new(*access.DeniedError))
		}
	}
	refuse(100)
	require.Len(t, b.recorded, recordBurst)
	require.Equal(t, 100, b.refused, "all of them are counted")
	now = now.Add(2 * recordInterval)
	refuse(100)
	require.Len(t, b.recorded, recordBurst+2)
	for i := range 2 * maxAllowances {
		b.records.take(fmt.Sprint(i))
	}
	require.Len(t, b.records.claims, maxAllowances)
	now = now.Add(time.Hour)
	require.True(t, b.records.take("another"))
	require.Less(t, len(b.records.claims), 10, "those that are full again are forgotten")
}
