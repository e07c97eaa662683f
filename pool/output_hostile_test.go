package pool_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/fake"
)

const hostileText = "\x1b]0;title\a\nit needs hunter2hunter2\u202e\n"

// checked is a workload whose check, the program "checker", has failed at once.
const checked = printing + "healthcheck: { test: [CMD, checker], interval: 1s, retries: 1 }\n"

func redactHunter(s string) string { return strings.ReplaceAll(s, "hunter2hunter2", "•••") }

// What a check prints is in the reason of a failure, in the events, and in what a
// tenant is answered that no container is ready: without secrets of hooks, and without
// what controls a terminal or looks like another line.
func TestCheckOutputInReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "")
		h.RT.AddProgram("checker", func(_ context.Context, p *fake.Proc) int {
			io.WriteString(p.Stderr, hostileText) //nolint:errcheck // it is in memory
			return 7
		})
		h.Pools.Redact(redactHunter)
		h.Apply(checked)
		const reason = "container is unhealthy: its check exited with code 7: ]0;title | it needs •••"
		require.Equal(t, reason, lastDestroyed(t, h).Reason)
		// The failure is counted when the container is gone.
		h.Until("a warning", func() bool { return len(h.Events(activity.PoolWarning)) > 0 })
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, reason, status.Fill.LastError)
		for _, e := range h.Events() {
			require.NotContains(t, e.Message+string(e.Data), "hunter2", e.Type)
			require.NotContains(t, e.Message, "\x1b", e.Type)
		}
	})
}

// What a check prints in a tenant's container is what the tenant's files have it
// print: it is in no reason and no message, which viewers may read.
func TestCheckOutputOfTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "")
		var code atomic.Int64
		h.RT.AddProgram("checker", func(_ context.Context, p *fake.Proc) int {
			io.WriteString(p.Stdout, hostileText) //nolint:errcheck // it is in memory
			return int(code.Load())
		})
		h.Apply(checked)
		c := h.Claim("w", "ada")
		code.Store(7)
		h.Until("the check to fail", func() bool { return len(h.Events(activity.ContainerUnhealthy)) == 1 })
		const reason = "container is unhealthy: its check exited with code 7"
		box, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, reason, box.Reason)
		event := h.Events(activity.ContainerUnhealthy)[0]
		require.Equal(t, reason, event.Message)
		require.Contains(t, string(event.Data), "it needs hunter2", "for authors and operators")
	})
}

// A part of a secret is not kept, also where the text begins within it, and where what
// is behind becomes short because it has more of them.
func TestNoPartOfSecretIsKept(t *testing.T) {
	secret := strings.Repeat("0123456789abcdef", 512)
	redact := func(s string) string { return strings.ReplaceAll(s, secret, "•••") }
	for name, printed := range map[string]string{
		"only secrets":      strings.Repeat(secret+"\n", 60),
		"behind much text":  strings.Repeat(secret+"\n", 19) + strings.Repeat("x", 1000) + "\n",
		"before short text": secret + strings.Repeat("a line\n", 9200),
		"with other bytes":  strings.Repeat("\xff"+secret+"\xfe", 30),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newPrinter(t, printed)
				h.Pools.Redact(redact)
				h.Apply(printing)
				h.AwaitIdle("w", 1)
				h.RT.Kill(containers(t, h)[0].ID)
				text := keptLog(t, h, lastDestroyed(t, h).ID)
				require.NotContains(t, text, "abcdef")
				require.NotEmpty(t, text)
				require.LessOrEqual(t, len(text), 64<<10)
			})
		})
	}
}

// A check that prints more than is captured shows no part of a secret either.
func TestNoPartOfSecretOfCheckIsKept(t *testing.T) {
	secret := strings.Repeat("0123456789abcdef", 128)
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "")
		h.RT.AddProgram("checker", func(_ context.Context, p *fake.Proc) int {
			io.WriteString(p.Stdout, strings.Repeat(secret+"-", 50)+"the end") //nolint:errcheck // it is in memory
			return 7
		})
		h.Pools.Redact(func(s string) string { return strings.ReplaceAll(s, secret, "•••") })
		h.Apply(checked)
		text := keptLog(t, h, lastDestroyed(t, h).ID)
		require.NotContains(t, text, "abcdef")
		require.Contains(t, text, "the end")
	})
}

// What a container printed for a tenant while it was unhealthy for a time is not the
// log of the container when it was wiped for another tenant, and is gone.
func TestKeptOutputOfEarlierTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "")
		var code atomic.Int64
		h.RT.AddProgram("checker", func(_ context.Context, p *fake.Proc) int {
			io.WriteString(p.Stdout, "of ada\n") //nolint:errcheck // it is in memory
			return int(code.Load())
		})
		h.Apply(strings.Replace(checked, "max_size: 1", "max_size: 1, reuse: wipe", 1))
		c := h.Claim("w", "ada")
		code.Store(7)
		h.Until("the check to fail", func() bool { return len(h.Events(activity.ContainerUnhealthy)) == 1 })
		code.Store(0)
		<-time.After(3 * time.Second)
		h.Release(c)
		require.Equal(t, c.Container, h.Claim("w", "bob").Container)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true))
		<-time.After(10 * time.Second)
		_, err := h.Pools.Logs(t.Context(), c.Container, 1<<20)
		require.ErrorIs(t, err, pool.ErrNoOutput)
	})
}

// A secret of which a check prints a part on each stream, or whose spaces it prints as
// tabs, is in no reason and in nothing that is kept.
func TestSecretInPartsOfCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "")
		h.RT.AddProgram("checker", func(_ context.Context, p *fake.Proc) int {
			io.WriteString(p.Stdout, "it was correct h")          //nolint:errcheck // it is in memory
			io.WriteString(p.Stderr, "orse\nor correct\thorse\n") //nolint:errcheck // it is in memory
			return 7
		})
		h.Pools.Redact(func(s string) string { return strings.ReplaceAll(s, "correct horse", "•••") })
		h.Apply(checked)
		reason := lastDestroyed(t, h).Reason
		require.Equal(t, "container is unhealthy: its check exited with code 7: orse | or •••", reason)
		kept, err := h.DB.Output(t.Context(), lastDestroyed(t, h).ID)
		require.NoError(t, err)
		require.Equal(t, "it was •••\nor correct\thorse\n", kept.Check.Tail)
	})
}
