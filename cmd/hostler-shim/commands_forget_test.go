package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing holds a command that was forgotten, however that happened: a tenant can
// have many run and end within the time for which one is kept.
func TestForgottenCommandIsHeldByNothing(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(s *commands, c *tenantCommand){
		"its client has everything": func(s *commands, c *tenantCommand) { s.remove(c) },
		"that, before it is kept":   func(s *commands, c *tenantCommand) { s.remove(c); s.keep(c) },
		"another tenant":            func(s *commands, _ *tenantCommand) { s.reset() },
		"that, and a late detach":   func(s *commands, c *tenantCommand) { s.reset(); s.keep(c) },
		"too many": func(s *commands, _ *tenantCommand) {
			for i := range maxEndedCommands + 1 {
				openEnded(t, s, fmt.Sprint("later-", i), 1)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCommands()
			c := openEnded(t, s, "a", 1)
			forget(s, c)
			require.NotContains(t, s.all, c)
			require.False(t, c.forget.Stop(), "its timer runs")
		})
	}
}
