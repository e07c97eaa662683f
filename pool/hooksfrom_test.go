package pool_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/workload"
)

// The hooks of another workload are copied when the file is applied: a later
// change of that workload changes nothing until then.
func TestHooksFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		apply := func(source string) error {
			_, err := h.Pools.Apply(t.Context(), []byte(source), "w.yaml", "")
			return err
		}
		child := flowtest.Edit(basicYAML, "id: w\n", "id: child\n") + "hooks_from: parent\n"
		invalid, ok := errors.AsType[workload.ValidationErrors](apply(child))
		require.True(t, ok)
		require.Equal(t, "hooks_from", invalid[0].Field)

		parent := flowtest.Edit(basicYAML, "id: w\n", "id: parent\n")
		require.NoError(t, apply(parent+"hooks: { pre_destroy: [{ name: a, command: [one] }] }\n"))
		require.NoError(t, apply(child))
		require.NoError(t, apply(parent+"hooks: { pre_destroy: [{ name: a, command: [two] }] }\n"))
		stored := func() string {
			r, err := h.Pools.Workload(t.Context(), "child")
			require.NoError(t, err)
			w, err := workload.Parse(r.Source, "child")
			require.NoError(t, err)
			return w.Hooks["pre_destroy"][0].Action.Summary()[0]
		}
		require.Equal(t, "one", stored())
		require.NoError(t, apply(child))
		require.Equal(t, "two", stored())
	})
}
