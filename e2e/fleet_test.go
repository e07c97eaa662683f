package e2e

import (
	"context"
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
)

// fleet is an installation with several servers on one PostgreSQL database.
type fleet struct {
	t       *testing.T
	rt      backend
	store   string
	args    []string // additional arguments of serve
	servers []*server

	instance string
	engine   runtime.Runtime
}

// serveFleet starts n servers on a new database.
func serveFleet(t *testing.T, n int, args ...string) *fleet {
	t.Helper()
	rt := dockerBackend{}
	requireBackend(t, rt)
	f := &fleet{t: t, rt: rt, args: args, store: postgrestest.Schema(t), instance: runID + "-" + uuid.NewString()[:8]}
	secret := []byte("a secret of these tests")
	db, err := store.Open(t.Context(), f.store)
	require.NoError(t, err)
	require.NoError(t, db.SetMeta(t.Context(), "installation", f.instance))
	require.NoError(t, db.SetMeta(t.Context(), "secret", hex.EncodeToString(secret)))
	require.NoError(t, db.Close())
	f.engine = rt.open(t, f.instance, "", secret)
	t.Cleanup(f.remove)
	for range n {
		f.add(f.store)
	}
	return f
}

// add starts one more server with this URL of the database.
func (f *fleet) add(store string) {
	f.t.Helper()
	f.install(store).start()
}

// install adds a server that does not run yet.
func (f *fleet) install(store string) *server {
	f.t.Helper()
	data, err := os.MkdirTemp("", "e2e-")
	require.NoError(f.t, err)
	s := &server{
		t: f.t, rt: f.rt, data: data, instance: f.instance, engine: f.engine, args: f.args,
		env: []string{"HOSTLER_STORE=" + store},
	}
	f.servers = append(f.servers, s)
	return s
}

// proxyStore returns a proxy to the database, and the URL of the database through
// it.
func (f *fleet) proxyStore() (*proxy, string) {
	f.t.Helper()
	u, err := url.Parse(f.store)
	require.NoError(f.t, err)
	address := u.Host
	p := newProxy(f.t, "tcp", freeAddress(), func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})
	u.Host = p.address
	p.restore(f.t)
	return p, u.String()
}

// remove kills all servers, and then removes what they created.
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

// isLeaderLine reports whether a log line reports that the server became leader.
func isLeaderLine(l logLine) bool { return l.hasMessage("became leader") }

// leader returns the leader and the other servers. It waits until there is a
// leader.
func (f *fleet) leader() (leader *server, others []*server) {
	f.t.Helper()
	testenv.AwaitTrue(f.t, "a server that leads", func() bool {
		leader, others = nil, nil
		for _, s := range f.servers {
			line, ended, _ := s.log.find(isLeaderLine)
			switch {
			case line != nil && !ended:
				leader = s
			case !ended:
				others = append(others, s)
			}
		}
		return leader != nil
	})
	return leader, others
}

// signal sends a signal to the server's process.
func (s *server) signal(signal syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(signal))
}

// requireNoGaps checks that the event log has each sequence number once, in
// order.
func (s *server) requireNoGaps() {
	s.t.Helper()
	for i, e := range s.events(client.EventFilter{}) {
		require.EqualValues(s.t, i+1, e.Seq)
	}
}
