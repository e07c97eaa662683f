package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// Init that stays after a signal ends when the server asks for it, since no other signal
// comes.
func TestHaltAfterSignal(t *testing.T) {
	for signalled, want := range map[bool]bool{true: true, false: false} {
		s := newSupervisor(shim.Config{HostProcess: true, StaysForState: true, StopGrace: time.Hour})
		s.admitted.Store(runtime.FirstFence + 1)
		if signalled {
			s.stopBySignal()
			<-s.halt.stopped
		}
		require.Equal(t, want, s.halt.ask())
	}
}

// Init stays after a signal while files of a tenant may have to be saved, also if no
// server is connected, and then only if it is told to. Once the server has asked for
// its end, nothing is to be saved.
func TestStaysForState(t *testing.T) {
	for name, test := range map[string]struct {
		stays  bool // as configured
		tenant func(s *supervisor)
		want   bool
	}{
		"no tenant":        {true, func(s *supervisor) { s.admitted.Store(runtime.FirstFence) }, false},
		"a claim":          {true, func(s *supervisor) { s.admitted.Store(runtime.FirstFence + 1) }, true},
		"a second signal":  {true, func(s *supervisor) { s.admitted.Store(7); s.halt.started = true }, true},
		"its end is asked": {true, func(s *supervisor) { s.admitted.Store(7); s.halt.ask() }, false},
		"not configured":   {false, func(s *supervisor) { s.admitted.Store(7) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(shim.Config{HostProcess: true, StaysForState: test.stays, StopGrace: time.Second})
			test.tenant(s)
			require.Equal(t, test.want, s.staysForState())
		})
	}
}
