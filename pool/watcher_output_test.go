package pool

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// claimedStore has a container that another tenant claims while its output is read.
type claimedStore struct {
	Store
	events []activity.Event
}

func (s *claimedStore) UpdateContainer(_ context.Context, m Transition) (Container, error) {
	if m.To == Destroying {
		return Container{}, ErrConflict
	}
	s.events = append(s.events, m.Events...)
	return Container{}, nil
}

func (*claimedStore) Container(context.Context, string) (Container, error) {
	return Container{ID: "c", State: Claimed, Tenant: "bob"}, nil
}

// logsOnce is an engine that returns a log once, and then that it is wiped.
type logsOnce struct {
	runtime.Runtime
	logs []string
}

func (r *logsOnce) Logs(context.Context, string, time.Time, int64) (io.ReadCloser, error) {
	text := r.logs[0]
	r.logs = r.logs[1:]
	return io.NopCloser(strings.NewReader(text)), nil
}

// A container exits while it is idle, and another tenant claims it while its output is
// read: what it printed for the tenant before is not in the event of the other one.
func TestExitDuringClaimOfAnother(t *testing.T) {
	for _, ofBob := range []string{"", "of bob"} {
		store := new(claimedStore)
		w := &Watcher{store: store, outputs: &outputReader{rt: &logsOnce{logs: []string{"of ada", ofBob}}, log: slog.New(slog.DiscardHandler)}}
		_, err := w.saveExit(t.Context(), Container{ID: "c", State: Idle, Tenant: "ada"}, errors.New("it exited"), activity.ContainerDiedData{ExitCode: 3})
		require.NoError(t, err)
		require.Len(t, store.events, 1)
		require.NotContains(t, string(store.events[0].Data), "of ada")
		require.Equal(t, ofBob != "", strings.Contains(string(store.events[0].Data), "of bob"))
	}
}
