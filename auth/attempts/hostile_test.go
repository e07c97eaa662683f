package attempts_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/attempts"
)

// Who shares an address with a client that guesses is not locked out, also with a
// token that the server has not seen: programs get a new one for each run.
func TestNewTokensBehindALimitedAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, attempts.NewVerifier(&verifier{}))
		for range 20 {
			l.send("192.0.2.1", "bad-.a.b") //nolint:errcheck // it is refused
		}
		require.ErrorAs(t, l.send("192.0.2.1", "bad-.a.b"), new(*auth.TooManyError))
		require.NoError(t, l.send("192.0.2.1", "good.new.one"))
		require.ErrorAs(t, l.send("192.0.2.1", "bad-.a.b"), new(*auth.TooManyError))
		require.NoError(t, l.send("192.0.2.1", "good.new.two"))
	})
}

// stalled accepts tokens of "good", and refuses those of "bad-" when it is released.
type stalled struct {
	begun   chan struct{}
	release chan struct{}
}

func (s stalled) Verify(_ context.Context, token string) (auth.Subject, error) {
	switch {
	case strings.HasPrefix(token, "good"):
		return auth.Subject{Name: token}, nil
	case strings.HasPrefix(token, "bad-"):
		s.begun <- struct{}{}
		<-s.release
	}
	return auth.Subject{}, auth.ErrInvalidCredential
}

// While an issuer does not answer, few requests of limited addresses wait for it. The
// others are answered at once.
func TestLimitedAddressesWaitForFewVerifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := stalled{begun: make(chan struct{}, 1000), release: make(chan struct{})}
		l := &limiter{t: t, Limiter: attempts.New(known{tokens: attempts.NewVerifier(inner)}, attempts.Options{})}
		require.NoError(t, l.send("192.0.2.1", "good.a.b"))
		l.exhaust("192.0.2.1")
		var g errgroup.Group
		for range 500 {
			g.Go(func() error {
				require.ErrorAs(t, l.send("192.0.2.1", "bad-.a.b"), new(*auth.TooManyError))
				return nil
			})
		}
		synctest.Wait()
		require.LessOrEqual(t, len(inner.begun), 8)
		require.NotEmpty(t, inner.begun)
		require.NoError(t, l.send("192.0.2.1", "good.a.b"), "a token that was accepted before")
		close(inner.release)
		require.NoError(t, g.Wait())
	})
}
