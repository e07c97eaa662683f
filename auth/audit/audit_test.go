package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// log is a log in memory.
type log struct {
	events []activity.Event
	err    error
}

func (l *log) Append(_ context.Context, events ...activity.Event) error {
	l.events = append(l.events, events...)
	return l.err
}

// run calls f with a Recorder that runs.
func run(t *testing.T, l *log, f func(r *Recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := NewRecorder(l, slog.New(slog.DiscardHandler))
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		f(r)
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
	})
}

func omittedBy(t *testing.T, e activity.Event) int64 {
	t.Helper()
	var data activity.AccessDeniedData
	require.NoError(t, json.Unmarshal(e.Data, &data))
	require.Equal(t, "exec", data.Operation)
	require.Equal(t, "scope", data.Reason)
	return data.Omitted
}

func denial(name, address string) Denial {
	return Denial{Actor: activity.Actor{Name: name, Address: address, Request: "r"}, Operation: "exec", Reason: "scope"}
}

// Of each sender a few denials are recorded. The next one has the number of the
// others.
func TestDenials(t *testing.T) {
	l := &log{}
	run(t, l, func(r *Recorder) {
		for range 20 {
			r.Denied(denial("key:a", "192.0.2.1"))
		}
		r.Denied(denial("key:b", "192.0.2.1"))
		synctest.Wait()
		require.Len(t, l.events, burst+1)
		e := l.events[0]
		require.Equal(t, []string{"access.denied", "key:a", "192.0.2.1", "r", ""}, []string{string(e.Type), e.Actor, e.Address, e.Request, e.Tenant})
		require.Equal(t, "key:b", l.events[burst].Actor)
		<-time.After(interval)
		r.Denied(denial("key:a", "192.0.2.1"))
		synctest.Wait()
		require.Equal(t, int64(20-burst), omittedBy(t, l.events[burst+1]))
		require.Zero(t, omittedBy(t, l.events[burst]))
	})
}

// knownSenders returns how many senders with a credential are remembered.
func knownSenders(r *Recorder) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known.senders)
}

// A sender without a credential is its network. Many senders neither fill the log nor
// the memory.
func TestManySenders(t *testing.T) {
	l := &log{}
	run(t, l, func(r *Recorder) {
		for i := range 2 * burst {
			r.Denied(denial(activity.Anonymous, fmt.Sprintf("2001:db8::%x", i+1)))
		}
		synctest.Wait()
		require.Len(t, l.events, burst)
		for i := range 3 * maxSenders {
			r.Denied(denial(fmt.Sprintf("key:%d", i), ""))
			synctest.Wait()
		}
		require.Equal(t, maxSenders, knownSenders(r))
		require.Len(t, l.events, burst+totalBurst)
		<-time.After(2 * forgetAfter)
		synctest.Wait()
		require.Zero(t, knownSenders(r))
	})
}

// What cannot be recorded does not stop the recorder, and no request waits for it.
func TestLogFails(t *testing.T) {
	l := &log{err: errors.New("no space")}
	run(t, l, func(r *Recorder) {
		r.Denied(denial("key:a", ""))
		synctest.Wait()
		r.Denied(denial("key:a", ""))
		synctest.Wait()
		require.Len(t, l.events, 2)
	})
	r := NewRecorder(l, slog.New(slog.DiscardHandler)) // nothing takes from its queue
	for i := range maxQueued + totalBurst {
		r.Denied(denial(fmt.Sprintf("key:%d", i), ""))
	}
}

// Neither clients without a credential, from however many networks, nor the tokens
// that one credential makes, have the denials of others omitted.
func TestDenialsOfOthersAreNotLost(t *testing.T) {
	for name, flood := range map[string]func(i int) Denial{
		"networks": func(i int) Denial {
			return denial(activity.Anonymous, fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff))
		},
		"tokens": func(i int) Denial { return denial(fmt.Sprintf("token:mallory#t%d", i), "192.0.2.1") },
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			run(t, l, func(r *Recorder) {
				for i := range maxSenders + totalBurst {
					r.Denied(flood(i))
					synctest.Wait()
				}
				flooded := len(l.events)
				require.Positive(t, flooded)
				for range burst {
					r.Denied(denial("key:carol", "192.0.2.9"))
					synctest.Wait()
				}
				require.Equal(t, flooded+burst, len(l.events))
				require.Equal(t, "key:carol", l.events[flooded].Actor)
			})
		})
	}
}
