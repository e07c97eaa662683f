package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// The hooks of an image are the first ones, and only with image_hooks. At
// pre_destroy they have no longer than the grace period of the file, as the others.
func TestHooksAt(t *testing.T) {
	t.Parallel()
	image := []runtime.ImageHook{
		{Point: "post_claim", Path: runtime.ImageHooksDir + "/post_claim"},
		{Point: "pre_destroy", Path: runtime.ImageHooksDir + "/pre_destroy"},
	}
	const file = "id: w\nimage: box\nhooks: { pre_destroy: [{ name: own, command: [a] }] }\n"
	at := func(source string, p hooks.Point) (names []string, first time.Duration) {
		w, err := Parse([]byte(source), "")
		require.NoError(t, err)
		for i, h := range w.HooksAt(p, image) {
			names = append(names, h.Name)
			if i == 0 {
				first = h.Timeout
			}
		}
		return names, first
	}
	names, _ := at(file, hooks.PreDestroy)
	require.Equal(t, []string{"own"}, names)
	names, first := at(file+"image_hooks: true\n", hooks.PreDestroy)
	require.Equal(t, []string{"image:pre_destroy", "own"}, names)
	require.Equal(t, hooks.DefaultTimeout, first)
	_, first = at(file+"image_hooks: true\nstop_grace_period: 3s\n", hooks.PreDestroy)
	require.Equal(t, 3*time.Second, first)
	_, first = at(file+"image_hooks: true\nstop_grace_period: 3s\n", hooks.PostClaim)
	require.Equal(t, hooks.DefaultTimeout, first)
	_, first = at(file+"image_hooks: true\nstop_grace_period: 0s\n", hooks.PreDestroy)
	require.Equal(t, hooks.DefaultTimeout, first, "0s kills the main process only")
	_, first = at(file+"image_hooks: true\nstop_grace_period: 5m\n", hooks.PreDestroy)
	require.Equal(t, hooks.DefaultTimeout, first, "it is a maximum")
}
