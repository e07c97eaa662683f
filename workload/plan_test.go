package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What differs is found by path, and what of that determines the containers.
func TestDifferences(t *testing.T) {
	parse := func(source string) *Workload {
		w, err := Parse([]byte(source), "w.yaml")
		require.NoError(t, err)
		return w
	}
	before := parse("id: a\nimage: x\nname: One\nhooks: {post_claim: [{name: h, command: [one]}]}\n")
	changes, revised := Differences(before, parse("# the same\nimage: 'x'\nid: a\nname: One\nhooks: {post_claim: [{name: h, command: [one]}]}\n"))
	require.Empty(t, changes)
	require.Empty(t, revised)
	changes, revised = Differences(before, parse("id: a\nimage: x\nread_only: true\nhooks: {post_claim: [{name: h, command: [two]}]}\n"))
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprint(c.Field, " ", c.Before == nil, " ", c.After == nil))
	}
	require.Equal(t, []string{"hooks.post_claim[0].command[0] false false", "name false true", "read_only true false"}, got)
	require.Equal(t, `"two"`, *changes[0].After)
	require.Equal(t, []string{"hooks.post_claim", "read_only"}, revised)

	// Neither many nor long values make the answer large.
	var long strings.Builder
	long.WriteString("id: a\nimage: x\nenvironment:\n")
	for i := range 2 * maxChanges {
		fmt.Fprintf(&long, "  V%d: %s\n", i, strings.Repeat("v", 1000))
	}
	changes, revised = Differences(nil, parse(long.String()))
	require.Len(t, changes, maxChanges)
	require.Less(t, len(*changes[0].After), maxChangedText+8)
	require.Empty(t, revised)
}
