package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

const rememberingWorkload = `
pool: { min_idle: 0, max_size: 3 }
memory: { shared: SHARED }
hooks:
  pre_release:
    - { name: waits, command: [APP, await, /state/go, MARKER], timeout: 180s }
`

// refusal returns the code of an error response, or "" for another error.
func refusal(err error) client.Code {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Code
	}
	return ""
}

// Memory is used through the command line and the API: by its claim only, and
// until its last hook has ended. It survives the server, no value is seen by
// another tenant or in a log, and it ends with what it belongs to.
func TestMemory(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := install(t, rt)
		s.start()
		marker, ctx := "memory-"+s.instance, t.Context()
		file := strings.NewReplacer("MARKER", marker, "SHARED", "true").Replace(rememberingWorkload)
		s.apply("remembers", file)
		ada, _, err := s.Claim(ctx, "remembers", "ada", waitTimeout)
		require.NoError(t, err)
		eve, _, err := s.Claim(ctx, "remembers", "eve", waitTimeout)
		require.NoError(t, err)

		for _, level := range []string{"claim", "swarm", "project"} {
			s.mustCLI("memory", "put", "plan/a b", "--claim", ada.ID, "--level", level, "--data", `{"secret": "swordfish"}`)
			require.Equal(t, `{"secret":"swordfish"}`+"\n", s.mustCLI("memory", "get", "plan/a b", "--claim", ada.ID, "--level", level))
			refused := s.cli("memory", "put", "plan/a b", "--claim", ada.ID, "--level", level, "--data", "2", "--if-version", "0")
			require.Equal(t, 1, refused.code)
		}
		for _, level := range []client.MemoryLevel{client.MemoryOfClaim, client.MemoryOfTenant} {
			_, err = s.GetMemory(ctx, eve.ID, level, "plan/a b")
			require.Equal(t, client.CodeMemoryNotFound, refusal(err))
			items, err := s.Memory(ctx, eve.ID, client.MemoryFilter{Level: level})
			require.NoError(t, err)
			require.Empty(t, items)
		}
		_, err = s.GetMemory(ctx, eve.ID, client.MemoryOfWorkload, "plan/a b")
		require.NoError(t, err)
		s.countTogether(ada, eve)

		s.kill()
		s.start()
		_, err = s.GetMemory(ctx, ada.ID, client.MemoryOfClaim, "plan/a b")
		require.NoError(t, err)
		s.apply("remembers", strings.Replace(file, "shared: true", "shared: false", 1))
		_, err = s.GetMemory(ctx, eve.ID, client.MemoryOfWorkload, "plan/a b")
		require.Equal(t, client.CodeMemoryNotShared, refusal(err))

		letGo := func(c client.Claim) { tenantSession{s, c}.mustRun("append", "/state/go", "x") }
		var g errgroup.Group
		g.Go(func() error {
			_, err := s.Release(ctx, ada.ID, false)
			return err
		})
		testenv.AwaitTrue(t, "the command to run", func() bool { return rt.hasProcess(t, ada.Container, marker) })
		_, err = s.PutMemory(ctx, ada.ID, client.MemoryOfTenant, "saved", json.RawMessage("7"), nil)
		require.NoError(t, err, "a hook of pre_release runs")
		letGo(ada)
		require.NoError(t, g.Wait())
		_, err = s.PutMemory(ctx, ada.ID, client.MemoryOfTenant, "saved", json.RawMessage("8"), nil)
		require.Equal(t, client.CodeClaimNotActive, refusal(err))
		_, err = s.GetMemory(ctx, ada.ID, client.MemoryOfClaim, "plan/a b")
		require.Equal(t, client.CodeClaimNotActive, refusal(err))

		ada, _, err = s.Claim(ctx, "remembers", "ada", waitTimeout)
		require.NoError(t, err)
		v, err := s.GetMemory(ctx, ada.ID, client.MemoryOfTenant, "saved")
		require.NoError(t, err)
		require.Equal(t, "7", string(v.Value))
		_, err = s.GetMemory(ctx, ada.ID, client.MemoryOfClaim, "plan/a b")
		require.Equal(t, client.CodeMemoryNotFound, refusal(err))

		letGo(ada)
		letGo(eve)
		s.releaseTenant("remembers", "ada")
		s.releaseTenant("remembers", "eve")
		s.deleteWorkload("remembers")
		s.apply("remembers", file)
		ada, _, err = s.Claim(ctx, "remembers", "ada", waitTimeout)
		require.NoError(t, err)
		for _, level := range []client.MemoryLevel{client.MemoryOfTenant, client.MemoryOfWorkload} {
			items, err := s.Memory(ctx, ada.ID, client.MemoryFilter{Level: level})
			require.NoError(t, err)
			require.Empty(t, items)
		}
		letGo(ada)
		s.releaseTenant("remembers", "ada")
		for _, text := range []string{s.log.String(), s.eventLog()} {
			require.NotContains(t, text, "swordfish")
			require.NotContains(t, text, "plan/a")
		}
		s.requireEnds()
	})
}

// countTogether has tenants increment a value that they share: none is lost.
func (s *server) countTogether(claims ...client.Claim) {
	s.t.Helper()
	const increments = 10
	var g errgroup.Group
	for _, c := range claims {
		g.Go(func() error {
			for done := 0; done < increments; {
				var n int
				var version int64
				v, err := s.GetMemory(s.t.Context(), c.ID, client.MemoryOfWorkload, "count")
				if err == nil {
					version = v.Version
					err = json.Unmarshal(v.Value, &n)
				} else if refusal(err) == client.CodeMemoryNotFound {
					err = nil
				}
				if err != nil {
					return err
				}
				_, err = s.PutMemory(s.t.Context(), c.ID, client.MemoryOfWorkload, "count", fmt.Append(nil, n+1), &version)
				switch {
				case err == nil:
					done++
				case refusal(err) == client.CodeRateLimited:
					<-time.After(100 * time.Millisecond)
				case refusal(err) != client.CodeVersionConflict:
					return err
				}
			}
			return nil
		})
	}
	require.NoError(s.t, g.Wait())
	v, err := s.GetMemory(s.t.Context(), claims[0].ID, client.MemoryOfWorkload, "count")
	require.NoError(s.t, err)
	require.Equal(s.t, fmt.Sprint(len(claims)*increments), string(v.Value))
}
