package e2e

import (
	"encoding/hex"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
)

// fleet is one installation with several servers on one PostgreSQL database.
type fleet struct {
	t       *testing.T
	rt      backend
	store   string
	servers []*server
}

// serveFleet starts n servers on a database of their own.
func serveFleet(t *testing.T, n int) *fleet {
	t.Helper()
	rt := dockerBackend{}
	need(t, rt)
	f := &fleet{t: t, rt: rt, store: postgrestest.Schema(t)}
	instance, secret := run+"-"+uuid.NewString()[:8], []byte("a secret of these tests")
	db, err := store.Open(t.Context(), f.store)
	require.NoError(t, err)
	require.NoError(t, db.SetMeta(t.Context(), "installation", instance))
	require.NoError(t, db.SetMeta(t.Context(), "secret", hex.EncodeToString(secret)))
	require.NoError(t, db.Close())
	engine := rt.open(t, instance, "", secret)
	t.Cleanup(f.remove)
	for range n {
		f.add(instance, engine)
	}
	return f
}

// add starts one more server.
func (f *fleet) add(instance string, engine runtime.Runtime) {
	f.t.Helper()
	data, err := os.MkdirTemp("", "e2e-")
	require.NoError(f.t, err)
	s := &server{
		t: f.t, rt: f.rt, data: data, instance: instance, engine: engine,
		env: []string{"HOSTLER_STORE=" + f.store},
	}
	f.servers = append(f.servers, s)
	s.start()
}

// remove ends all servers before what they made is removed.
func (f *fleet) remove() {
	for _, s := range f.servers {
		if s.cmd != nil {
			s.cmd.Process.Kill() //nolint:errcheck // it may have ended
		}
	}
	for _, s := range f.servers {
		s.remove()
	}
}

// leads says whether a line of a server's log says that it leads.
func leads(l logLine) bool { return l.says("this server keeps the pools now") }

// leader is the server that leads, and the others. It waits until one does.
func (f *fleet) leader() (leader *server, others []*server) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		leader, others = nil, nil
		for _, s := range f.servers {
			line, ended, _ := s.log.find(leads)
			switch {
			case line != nil && !ended:
				leader = s
			case !ended:
				others = append(others, s)
			}
		}
		return leader != nil
	}, patience, 20*time.Millisecond, "nobody leads")
	return leader, others
}

// signal sends a server a signal that it does not hear of.
func (s *server) signal(signal syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(signal))
}

// requireNoGaps checks that the log has each number once, in order.
func (s *server) requireNoGaps() {
	s.t.Helper()
	for i, e := range s.events(activity.Filter{}) {
		require.EqualValues(s.t, i+1, e.Seq)
	}
}
