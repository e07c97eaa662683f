package attempts_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/attempts"
)

// known accepts the key "good", and tokens that its verifier accepts.
type known struct {
	auth.Authenticator // what is not called here
	tokens             auth.TokenVerifier
}

func (k known) Authenticate(ctx context.Context, r auth.Request) (*auth.Principal, error) {
	switch r.Bearer {
	case "":
		return nil, auth.ErrNoCredential
	case "good":
		return &auth.Principal{Name: "good"}, nil
	case "down":
		return nil, auth.ErrUnavailable
	}
	if k.tokens == nil {
		return nil, auth.ErrInvalidCredential
	}
	subject, err := k.tokens.Verify(ctx, r.Bearer)
	if err != nil {
		return nil, fmt.Errorf("verify a token: %w", err)
	}
	return &auth.Principal{Name: subject.Name}, nil
}

// limiter is a Limiter, and the reasons that it has reported.
type limiter struct {
	t *testing.T
	*attempts.Limiter
	reasons map[attempts.Reason]int
}

func newLimiter(t *testing.T, tokens auth.TokenVerifier) *limiter {
	l := &limiter{t: t, reasons: map[attempts.Reason]int{}}
	l.Limiter = attempts.New(known{tokens: tokens}, attempts.Options{OnFailure: func(r attempts.Reason) { l.reasons[r]++ }})
	return l
}

// send returns the error of a request from an address, which is empty for a Unix socket.
func (l *limiter) send(address, key string) error {
	l.t.Helper()
	r := auth.Request{Bearer: key}
	if address == "" {
		r.UID = new(uint32)
	} else {
		r.Address = netip.MustParseAddr(address)
	}
	_, err := l.Authenticate(l.t.Context(), r)
	return err
}

// isLimited reports whether an invalid key gets TooManyError, and how long to wait.
func (l *limiter) isLimited(address string) (bool, time.Duration) {
	l.t.Helper()
	err := l.send(address, "bad")
	tooMany, ok := errors.AsType[*auth.TooManyError](err)
	if !ok {
		require.ErrorIs(l.t, err, auth.ErrInvalidCredential)
		return false, 0
	}
	return true, tooMany.RetryAfter
}

// exhaust sends the invalid credentials that an address may send.
func (l *limiter) exhaust(address string) {
	l.t.Helper()
	for range 10 {
		require.ErrorIs(l.t, l.send(address, "bad"), auth.ErrInvalidCredential)
	}
}

// advance waits in the time of a test.
func advance(d time.Duration) { <-time.After(d) }

// The eleventh invalid credential within a minute is refused, and then one for each
// delay, which doubles up to a minute. Ten quiet minutes end that.
func TestDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, nil)
		l.exhaust("192.0.2.1")
		for _, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			limited, wait := l.isLimited("192.0.2.1")
			require.True(t, limited)
			require.Equal(t, time.Duration(want)*time.Second, wait)
			advance(wait - time.Millisecond)
			limited, wait = l.isLimited("192.0.2.1")
			require.True(t, limited, "attempts within the delay end it")
			advance(wait)
			limited, _ = l.isLimited("192.0.2.1")
			require.False(t, limited)
		}
		advance(time.Minute + 10*time.Minute)
		l.exhaust("192.0.2.1")
	})
}

// Failures that are further apart than ten a minute are not limited.
func TestSlowFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, nil)
		for range 100 {
			limited, _ := l.isLimited("192.0.2.1")
			require.False(t, limited)
			advance(7 * time.Second)
		}
	})
}

// slow accepts nothing, once all its callers are there.
type slow struct {
	auth.Authenticator // what is not called here
	all                *sync.WaitGroup
}

func (s slow) Authenticate(context.Context, auth.Request) (*auth.Principal, error) {
	s.all.Done()
	s.all.Wait()
	return nil, auth.ErrInvalidCredential
}

// Attempts that are in progress when their address becomes limited do not double its
// delay, each once more.
func TestConcurrentAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := slow{all: new(sync.WaitGroup)}
		l := &limiter{t: t, Limiter: attempts.New(inner, attempts.Options{})}
		inner.all.Add(200)
		var g errgroup.Group
		for range 200 {
			g.Go(func() error {
				require.ErrorIs(t, l.send("192.0.2.1", "bad"), auth.ErrInvalidCredential)
				return nil
			})
		}
		require.NoError(t, g.Wait())
		inner.all.Add(1)
		limited, wait := l.isLimited("192.0.2.1")
		require.True(t, limited)
		require.Equal(t, time.Second, wait)
	})
}

// Only invalid credentials are refused to an address that is limited: others may
// share it. A key that is valid does not end the limit either.
func TestOthersBehindTheAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, nil)
		l.exhaust("192.0.2.1")
		for range 3 {
			require.NoError(t, l.send("192.0.2.1", "good"))
			require.ErrorIs(t, l.send("192.0.2.1", ""), auth.ErrNoCredential)
			limited, _ := l.isLimited("192.0.2.1")
			require.True(t, limited)
		}
		require.Equal(t, map[attempts.Reason]int{attempts.Invalid: 10, attempts.Limited: 3, attempts.Missing: 3}, l.reasons)
	})
}

// Requests without a credential, and ones that cannot be checked, are no attempts.
func TestWhatIsNoAttempt(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, nil)
	for range 30 {
		require.ErrorIs(t, l.send("192.0.2.1", ""), auth.ErrNoCredential)
		require.ErrorIs(t, l.send("192.0.2.1", "down"), auth.ErrUnavailable)
		require.ErrorIs(t, l.send("", "bad"), auth.ErrInvalidCredential) // a Unix socket
	}
	require.Equal(t, map[attempts.Reason]int{attempts.Missing: 30, attempts.Unavailable: 30, attempts.Invalid: 30}, l.reasons)
}

// One IPv4 address is one client, and so is a network of IPv6 that one subscriber has.
func TestClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			first, second string
			same          bool
		}{
			{"192.0.2.1", "192.0.2.2", false},
			{"192.0.2.1", "::ffff:192.0.2.1", true},
			{"2001:db8::1", "2001:db8::ffff:1:2:3", true},
			{"2001:db8::1", "2001:db8:0:1::1", false},
			{"fe80::1%eth0", "fe80::1%eth1", true},
		} {
			l := newLimiter(t, nil)
			l.exhaust(c.first)
			limited, _ := l.isLimited(c.second)
			require.Equal(t, c.same, limited, "%s %s", c.first, c.second)
		}
	})
}

// Failures of 20,000 other addresses neither end the limit of one nor are all kept.
func TestManyAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, nil)
		l.exhaust("192.0.2.1")
		for i := range 20_000 {
			require.ErrorIs(t, l.send(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff), "bad"), auth.ErrInvalidCredential)
		}
		limited, _ := l.isLimited("192.0.2.1")
		require.True(t, limited)
		counted, refused := l.Sizes()
		require.Equal(t, 10_000, counted)
		require.Equal(t, 1, refused)
	})
}

// The table of limited addresses has a bound too: the one that failed first goes.
func TestManyLimitedAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, nil)
		address := func(i int) string { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String() }
		for i := range 10_001 {
			l.exhaust(address(i))
		}
		_, refused := l.Sizes()
		require.Equal(t, 10_000, refused)
		limited, _ := l.isLimited(address(0))
		require.False(t, limited)
		limited, _ = l.isLimited(address(1))
		require.True(t, limited)
	})
}

// verifier accepts tokens of "good", and counts what it verifies.
type verifier struct{ verified int }

func (v *verifier) Verify(_ context.Context, token string) (auth.Subject, error) {
	v.verified++
	if token[:4] != "good" {
		return auth.Subject{}, auth.ErrInvalidCredential
	}
	return auth.Subject{Name: token}, nil
}

// Tokens that were accepted are remembered up to a bound, those in use the longest.
func TestKnownTokensAreBounded(t *testing.T) {
	t.Parallel()
	v := attempts.NewVerifier(&verifier{})
	for i := range 15_000 {
		for _, token := range []string{"good.in.use", fmt.Sprintf("good.%d.x", i)} {
			_, err := v.Verify(t.Context(), token)
			require.NoError(t, err)
		}
	}
	require.LessOrEqual(t, v.Size(), 10_000)
	require.True(t, v.Knows("good.in.use"))
	require.False(t, v.Knows("good.0.x"))
}

// A summary counts the last five minutes, and names the address that was limited.
func TestSummary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, nil)
		require.Equal(t, attempts.Summary{}, l.Summary())
		l.exhaust("192.0.2.1")
		l.isLimited("192.0.2.1")
		advance(2 * time.Minute)
		require.NoError(t, l.send("192.0.2.9", "good"))
		require.Equal(t, attempts.Summary{Failures: 11, Limited: netip.MustParsePrefix("192.0.2.1/32")}, l.Summary())
		advance(4 * time.Minute)
		require.Equal(t, attempts.Summary{}, l.Summary())
	})
}
