package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/shim"
)

// Init stays after a signal while files of a tenant may have to be saved, and then
// only if it is told to.
func TestStaysForState(t *testing.T) {
	for name, test := range map[string]struct {
		stays  bool // as configured
		tenant func(s *supervisor)
		want   bool
	}{
		"no tenant":        {true, func(*supervisor) {}, false},
		"an active claim":  {true, func(s *supervisor) { s.admitted.Store(7); s.asks.serve(new(shim.Conn), 7) }, true},
		"an earlier claim": {true, func(s *supervisor) { s.admitted.Store(8); s.asks.serve(new(shim.Conn), 7) }, false},
		"a hook":           {true, func(s *supervisor) { s.asks.serveCommand(&run{id: "r"}, new(shim.Conn), 7) }, true},
		"an upload":        {true, func(s *supervisor) { s.transfers <- struct{}{} }, true},
		"not configured":   {false, func(s *supervisor) { s.transfers <- struct{}{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(shim.Config{HostProcess: true, StaysForState: test.stays, StopGrace: time.Second})
			test.tenant(s)
			require.Equal(t, test.want, s.staysForState())
		})
	}
}
