package credential_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
)

// database is an SQLite file that several services share, as servers share
// PostgreSQL. It can be unavailable, and counts its reads.
type database struct {
	*store.DB
	isDown      atomic.Bool
	generations atomic.Int64
	loads       atomic.Int64
}

var errDown = errors.New("the database is down")

func (d *database) IsShared() bool { return true }

func (d *database) CredentialGeneration(ctx context.Context) (int64, error) {
	d.generations.Add(1)
	if d.isDown.Load() {
		return 0, errDown
	}
	return d.DB.CredentialGeneration(ctx)
}

func (d *database) Credentials(ctx context.Context, after int64) (credential.Credentials, error) {
	d.loads.Add(1)
	return d.DB.Credentials(ctx, after)
}

func openDatabase(t testing.TB) *database {
	t.Helper()
	db := dbtest.Open(t)
	return &database{DB: db}
}

var secret = []byte("the identity of an installation")

// newService returns a service that has loaded, and does not run.
func newService(t testing.TB, o credential.Options) *credential.Service {
	t.Helper()
	o.Secret, o.OwnUID = secret, 990
	s, err := credential.New(o)
	require.NoError(t, err)
	require.NoError(t, s.Load(t.Context()))
	return s
}

// run runs a service until the test or the returned function ends it.
func run(t *testing.T, s *credential.Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group errgroup.Group
	group.Go(func() error { return s.Run(ctx) })
	isStopped := false
	stop = func() {
		if !isStopped {
			isStopped = true
			cancel()
			require.NoError(t, group.Wait())
		}
	}
	t.Cleanup(stop)
	return stop
}

// pass lets time pass in a bubble, with all that is due by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var operator = []auth.Grant{{Role: auth.Operator}}

func patterns(t testing.TB, texts ...string) []activity.Pattern {
	t.Helper()
	list := make([]activity.Pattern, 0, len(texts))
	for _, text := range texts {
		p, err := activity.ParsePattern(text)
		require.NoError(t, err)
		list = append(list, p)
	}
	return list
}

func tenantOf(t testing.TB, tenants ...string) []auth.Grant {
	return []auth.Grant{{Role: auth.Tenant, Tenants: patterns(t, tenants...)}}
}

func mustKey(t testing.TB, s *credential.Service, name string, grants []auth.Grant) string {
	t.Helper()
	_, key, err := s.CreateKey(t.Context(), credential.NewKey{Name: name, Grants: grants})
	require.NoError(t, err)
	return key
}

func as(t testing.TB, s *credential.Service, bearer string) (*auth.Principal, error) {
	return s.Authenticate(t.Context(), auth.Request{Bearer: bearer})
}

func mustBe(t testing.TB, s *credential.Service, bearer string) *auth.Principal {
	t.Helper()
	p, err := as(t, s, bearer)
	require.NoError(t, err)
	return p
}

func refused(t testing.TB, s *credential.Service, bearer string, want error) {
	t.Helper()
	_, err := as(t, s, bearer)
	require.ErrorIs(t, err, want)
	if !errors.Is(want, auth.ErrUnavailable) {
		require.False(t, s.IsCredential(t.Context(), bearer))
	}
}

// follow follows a principal and returns the causes of its end.
func follow(t testing.TB, s *credential.Service, p *auth.Principal) <-chan error {
	causes := make(chan error, 2)
	t.Cleanup(s.Follow(p, func(cause error) { causes <- cause }))
	return causes
}

func mustEnd(t testing.TB, causes <-chan error, want error, within time.Duration) {
	t.Helper()
	select {
	case cause := <-causes:
		require.ErrorIs(t, cause, want)
	case <-time.After(max(within, time.Millisecond)):
		require.FailNow(t, "the request has not ended")
	}
}

func mustLast(t testing.TB, causes <-chan error) {
	t.Helper()
	select {
	case cause := <-causes:
		require.NoError(t, cause, "the request has ended")
	default:
	}
}
