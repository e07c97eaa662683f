package membership_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/membership/membershiptest"
	"github.com/hostler/hostler/runtime"
)

// reads are the methods of a runtime that change nothing. Every other method is
// blocked without a lease.
var reads = map[string]bool{
	"Check": true, "Protocols": true, "Status": true, "Reach": true, "List": true, "Logs": true, "Watch": true,
	"WaitResult": true, "Output": true, "CopyOut": true, "ScanTree": true, "LastModified": true,
	"Commands": true, "StatFile": true, "ListFiles": true, "ReadFile": true, "ReadTree": true,
}

// A server without a lease changes nothing on the engine, by any method.
func TestGuardBlocksEveryChange(t *testing.T) {
	db := membershiptest.NewDatabase()
	m := membership.New(db.Open(), slog.New(slog.DiscardHandler), membership.Options{Host: "a"})
	rt := m.Guard(nil) // a call that is not blocked panics
	iface := reflect.TypeFor[runtime.Runtime]()
	require.Greater(t, iface.NumMethod(), len(reads))
	call := func(method reflect.Method) (err error) {
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for i := 1; i < method.Type.NumIn(); i++ {
			args = append(args, reflect.Zero(method.Type.In(i)))
		}
		out := reflect.ValueOf(rt).MethodByName(method.Name).Call(args[:method.Type.NumIn()])
		last, _ := out[len(out)-1].Interface().(error)
		return last
	}
	for method := range iface.Methods() {
		if reads[method.Name] {
			require.Panics(t, func() { _ = call(method) }, "%s is blocked", method.Name)
			continue
		}
		require.NotPanics(t, func() { require.ErrorIs(t, call(method), runtime.ErrUnavailable, method.Name) }, method.Name)
	}
	require.NoError(t, m.Register(t.Context()))
	for method := range iface.Methods() {
		require.Panics(t, func() { _ = call(method) }, "%s is blocked", method.Name)
	}
	require.NoError(t, m.Leave(t.Context()))
	require.ErrorIs(t, m.CheckLease(), runtime.ErrUnavailable)
}

// The runtime's results reach the caller.
func TestGuardReturnsResults(t *testing.T) {
	m := membership.New(membershiptest.NewDatabase().Open(), slog.New(slog.DiscardHandler), membership.Options{})
	require.NoError(t, m.Register(t.Context()))
	rt := m.Guard(execer{})
	got, err := rt.Exec(t.Context(), "k", runtime.Command{})
	require.Equal(t, runtime.Result{ExitCode: 3}, got)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.False(t, errors.Is(err, runtime.ErrUnavailable))
}

type execer struct{ runtime.Runtime }

func (execer) Exec(context.Context, string, runtime.Command) (runtime.Result, error) {
	return runtime.Result{ExitCode: 3}, io.ErrUnexpectedEOF
}
