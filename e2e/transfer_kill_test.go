package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// killer is a backend whose containers can be killed from outside.
type killer interface {
	backend
	kill(ctx context.Context, s *server, id string) error
}

func (dockerBackend) kill(ctx context.Context, _ *server, id string) error {
	e, err := localEngine()
	if err != nil {
		return err
	}
	return e.post(ctx, "/containers/hostler-"+id+"/kill", nil, func(io.Reader) error { return nil })
}

func (b processBackend) kill(_ context.Context, s *server, id string) error {
	var init proctree.ID
	if err := json.Unmarshal([]byte(b.incarnation(s.t, s, id)), &init); err != nil {
		return err
	}
	return syscall.Kill(init.PID, syscall.SIGKILL)
}

// A container that is killed while the sink takes or gives a tenant's state costs no
// state: a release reads the container again, and a claim gets all of it in another
// container.
func TestContainerKilledDuringTransfer(t *testing.T) {
	t.Parallel()
	for _, rt := range []killer{processBackend{}, dockerBackend{}} {
		t.Run(rt.name(), func(t *testing.T) {
			t.Parallel()
			requireBackend(t, rt)
			b := serveBucket(t)
			s := install(t, rt)
			s.env = []string{b.env()}
			s.start()
			s.apply("kept", strings.Replace(b.file(), "min_idle: 4", "min_idle: 2", 1))
			ada := s.claimAs("kept", "ada")
			ada.mustRun("bulk", "/state/bulk", "96", "x") // more than a server holds of an upload
			sum := ada.mustRun("sum", "/state/bulk")

			killed := b.killOnce(s, rt, &b.onPut, func() string { return ada.Container })
			_, _ = s.Release(t.Context(), ada.ID, false) // an error means that it is retried
			s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: ada.ID}, 1)
			require.Equal(t, ada.Container, killed())
			s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventSyncFailed}, Claim: ada.ID}, 1)

			killed = b.killOnce(s, rt, &b.onGet, func() string {
				claims, err := s.Claims(t.Context(), client.ClaimFilter{Tenant: "ada"})
				if !assert.NoError(t, err) || !assert.Len(t, claims, 1) {
					return ""
				}
				return claims[0].Container
			})
			again := s.claimAs("kept", "ada")
			require.NotEqual(t, again.Container, killed())
			s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventSyncFailed}, Claim: again.ID}, 1)
			require.Equal(t, sum, again.mustRun("sum", "/state/bulk"))
			again.release()
			s.deleteWorkload("kept")
			s.requireEnds()
		})
	}
}

// killOnce has the next transfer of an object kill a container. The function that it
// returns returns which one was killed.
func (b *bucketServer) killOnce(s *server, rt killer, at *atomic.Pointer[func()], which func() string) func() string {
	killed := make(chan string, 1)
	call := func() {
		if at.Swap(nil) == nil {
			return
		}
		id := which()
		assert.NoError(s.t, rt.kill(s.t.Context(), s, id))
		killed <- id
	}
	at.Store(&call)
	return func() string {
		s.t.Helper()
		return testenv.Await(s.t, killed, "an object is transferred") // which may have failed before the kill was answered
	}
}

// isLargeRange reports whether a request reads several chunks of a pack.
func isLargeRange(r *http.Request) bool {
	var from, to int64
	n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
	return n == 2 && to-from > 1<<20
}
