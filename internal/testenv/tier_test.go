package testenv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// setTier sets the environment of a run: TIER, PASS, FORCE and ROTATE.
func setTier(t *testing.T, values ...string) {
	t.Helper()
	for i, name := range []string{"TIER", "PASS", "FORCE", "ROTATE"} {
		t.Setenv(name, append(values, "", "", "", "")[i])
	}
}

// skipOf returns the reason with which a function skips its test, or "".
func skipOf(check func(testing.TB)) string {
	tb := &recordingTB{}
	check(tb)
	return tb.reason
}

// Each tier and pass leaves out what it should, and the runner recognizes why.
func TestTiers(t *testing.T) {
	for _, tc := range []struct {
		env                  []string
		full, second, rotate bool // whether it runs
	}{
		{[]string{""}, true, true, true},
		{[]string{"short"}, false, false, false},
		{[]string{"gate", "1"}, false, false, false},
		{[]string{"gate", "2"}, false, true, false},
		{[]string{"gate", "2", "soak,gvisor"}, true, true, false},
		{[]string{"full", "1"}, true, false, true},
		{[]string{"full", "2"}, true, true, true},
	} {
		t.Run(strings.Join(tc.env, " "), func(t *testing.T) {
			if tc.env[0] == "" && testing.Short() {
				t.Skip("-short is a tier")
			}
			setTier(t, tc.env...)
			reasons := []string{
				skipOf(func(tb testing.TB) { FullOnly(tb, "gvisor", "it is slow") }),
				skipOf(func(tb testing.TB) { InSecondPass(tb, "it waits") }),
				skipOf(func(tb testing.TB) { Rotates(tb, 1_000_000, "a case") }),
			}
			for i, runs := range []bool{tc.full, tc.second, tc.rotate} {
				want := ""
				if !runs {
					want = []string{FullSuite + "it is slow", SecondPass + "it waits", Rotation + "0/1000000: not in this run"}[i]
				}
				require.Equal(t, want, reasons[i])
			}
		})
	}
	setTier(t, "Gate")
	require.Panics(t, func() { IsFull() })
}

// As many runs as there are parts select each case once, whatever the first is.
func TestRotation(t *testing.T) {
	for _, parts := range []int{1, 4, 10} {
		count := map[string]int{}
		for run := range parts {
			setTier(t, "gate", "2", "", fmt.Sprint(1234+run))
			for i := range 200 {
				if name := fmt.Sprint("case ", i); Selects(parts, name) {
					count[name]++
				}
			}
		}
		require.Len(t, count, 200)
		for name, n := range count {
			require.Equal(t, 1, n, name)
		}
	}
	setTier(t, "gate", "", "", "3/10")
	require.Panics(t, func() { Selects(10, "a case") })
}
