package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/runtime"
)

// printed is a runtime whose commands have printed a text.
type printed struct {
	stdout, stderr runtime.Output
	err            error
	asked          []string
}

func (p *printed) Output(_ context.Context, id, runID string) (stdout, stderr runtime.Output, err error) {
	p.asked = append(p.asked, id+"/"+runID)
	return p.stdout, p.stderr, p.err
}

// newLive returns a reader of live output, whose redactor knows secrets.
func newLive(rt *printed, secrets ...string) liveOutput {
	r := new(request.Redactor)
	r.Add(secrets...)
	claims := map[string]claim.Claim{"plain": {}, "sealed": {Sealed: map[string]string{"token": "x"}}}
	return liveOutput{rt: rt, redact: r, log: slog.New(slog.DiscardHandler), claim: func(_ context.Context, id string) (claim.Claim, error) {
		c, ok := claims[id]
		if !ok {
			return c, claim.ErrClaimNotFound
		}
		return c, nil
	}}
}

// A running attempt has the whole lines that it has printed. The container is asked
// only where it can have some that may be shown.
func TestLiveOutput(t *testing.T) {
	running := hooks.Run{ID: "r", Attempt: 2, State: hooks.Running, Kind: hooks.KindCommand, Container: "c", Claim: "plain"}
	rt := &printed{stdout: runtime.Output{Head: "one\ntw", Total: 6}, stderr: runtime.Output{Head: "10 %\r20", Total: 7}}
	got := newLive(rt).add(t.Context(), running)
	require.Equal(t, runtime.Output{Head: "one\n", Total: 6}, got.Stdout)
	require.Equal(t, runtime.Output{Head: "10 %\r", Total: 7}, got.Stderr)
	require.Equal(t, []string{"c/r.2"}, rt.asked)

	for name, change := range map[string]func(r *hooks.Run){
		"has ended":                  func(r *hooks.Run) { r.State = hooks.Succeeded },
		"is of the server":           func(r *hooks.Run) { r.Kind = hooks.KindHTTP },
		"has no container":           func(r *hooks.Run) { r.Container = "" },
		"has secret parameters":      func(r *hooks.Run) { r.Claim = "sealed" },
		"is of a claim that is gone": func(r *hooks.Run) { r.Claim = "gone" },
	} {
		t.Run(name, func(t *testing.T) {
			r := running
			change(&r)
			rt := &printed{stdout: runtime.Output{Head: "one\n"}}
			require.Equal(t, r, newLive(rt).add(t.Context(), r))
			require.Empty(t, rt.asked)
		})
	}
	rt = &printed{stdout: runtime.Output{Head: "one\n"}, err: errors.New("it does not answer")}
	require.Equal(t, running, newLive(rt).add(t.Context(), running))
}

// No part of a secret is shown while it is being printed, wherever the output ends,
// and wherever its end begins.
func TestLiveOutputHasNoPartOfSecret(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nZq9fZq==\n-----END PRIVATE KEY-----\n"
	for _, secret := range []string{"hunter2hunter2hunter2", key} {
		text := "before\n" + secret + "\nafter\n"
		for end := range len(text) {
			for begin := range end {
				for _, o := range []runtime.Output{
					{Head: text[:end]},
					{Head: text[:begin], Tail: text[begin:end]},
					{Head: text[:begin], Tail: text[begin:end], Truncated: true},
				} {
					rt := &printed{stdout: o}
					got := newLive(rt, secret).add(t.Context(), hooks.Run{State: hooks.Running, Kind: hooks.KindScript, Container: "c"})
					for _, part := range []string{"hunter", "MIIEv", "BKcw", "ASC", "cKj", "Zq"} {
						require.NotContains(t, got.Stdout.String(), part, "%+v", o)
					}
				}
			}
		}
	}
	rt := &printed{stdout: runtime.Output{Head: "a\nb", Tail: "c\nd\ne", Truncated: true}}
	got := newLive(rt).add(t.Context(), hooks.Run{State: hooks.Running, Kind: hooks.KindScript, Container: "c"})
	require.Equal(t, runtime.Output{Head: "a\n", Tail: "d\n", Truncated: true}, got.Stdout)
	long := runtime.Output{Head: strings.Repeat("x", 9), Tail: strings.Repeat("x", 9), Truncated: true}
	got = newLive(&printed{stdout: long}).add(t.Context(), hooks.Run{State: hooks.Running, Kind: hooks.KindScript, Container: "c"})
	require.Equal(t, runtime.Output{Truncated: true}, got.Stdout)
}
