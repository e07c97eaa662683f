package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Attack names are unique, and every attack can be performed.
func TestAttackTable(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	texts := make(map[string]bool)
	for _, a := range attacks() {
		require.False(t, names[a.Name], a.Name)
		require.False(t, texts[a.Text], a.Text)
		names[a.Name], texts[a.Text] = true, true
		require.NotNil(t, a.run, a.Name)
		require.NotEmpty(t, a.Class, a.Name)
		require.Contains(t, []string{"", "root", "other"}, a.User, a.Name)
	}
	require.GreaterOrEqual(t, len(names), 80)
}

// Every process that an attack names is defined.
func TestChildrenAreDefined(t *testing.T) {
	t.Parallel()
	for name, f := range children() {
		require.NotNil(t, f, name)
	}
}

// A tenant of the soak is honest unless its name contains an attack and its time.
func TestParseSoakTenant(t *testing.T) {
	t.Parallel()
	require.Equal(t, soakTenant{point: "post_claim", source: "fresh", number: "7"}, parseSoakTenant("7.honest", "post_claim", "fresh"))
	require.Equal(t, soakTenant{number: "7", attack: "daemon", at: "post_claim", after: 250}, parseSoakTenant("7.daemon.c250", "", ""))
	require.Equal(t, soakTenant{number: "7", attack: "daemon", at: "pre_release"}, parseSoakTenant("7.daemon.r0", "", ""))
	require.Equal(t, soakTenant{}, parseSoakTenant("", "", ""))
}

// A marker of any other tenant counts, the own one does not.
func TestHasForeignMarker(t *testing.T) {
	t.Parallel()
	o := order{Own: soakTenant{number: "7"}.marker()}
	require.False(t, o.hasForeignMarker("of mksoak7x only"))
	require.True(t, o.hasForeignMarker("of mksoak7x and mksoak77x"))
	o = order{Marker: "now", Past: []string{"before", ""}}
	require.True(t, o.hasForeignMarker("it was before"))
	require.True(t, o.hasForeignMarker("it is now"))
	require.False(t, o.hasForeignMarker("nothing"))
}
