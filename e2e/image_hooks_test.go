package e2e

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// imageHook is a hook of the tests' image. It prints itself.
const imageHook = "#!/box read\n"

// withImageHooks returns the files of an image with those of its hooks, of which
// one is refused. They run only with image_hooks.
func withImageHooks(dir string, files map[string]string) map[string]string {
	all := maps.Clone(files)
	for _, name := range []string{"post_claim", "post_claim.d/10-a", "post_claim.d/refused~", "pre_destroy"} {
		all["etc/hostler/hooks/"+name] = filepath.Join(dir, "image-hook")
	}
	return all
}

// The hooks of the image run before those of the file. What the tenant, who is root
// in the container, puts in their place does not run.
func TestImageHooks(t *testing.T) {
	t.Parallel()
	forEachEngine(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("hooked", `
image_hooks: true
pool: { min_idle: 0, max_size: 1, reuse: never }
hooks:
  post_claim: [{ name: own, command: [BOX, write, /etc/hostler/hooks/pre_destroy, "#!/box pwd"] }]
`)
		c, _, err := s.Claim(t.Context(), "hooked", "ada", waitTimeout)
		require.NoError(t, err)
		runs := s.runsOf(client.RunFilter{Claim: c.ID})
		require.Len(t, runs, 3)
		for i, name := range []string{"image:post_claim", "image:10-a", "own"} {
			require.Equal(t, name, runs[i].Hook)
			require.Equal(t, client.RunSucceeded, runs[i].State, "%s: %s", name, runs[i].Error)
		}
		require.Equal(t, imageHook, outputsByHook(runs)["image:10-a"])
		require.Contains(t, s.mustCLI("events", "--type", "hook.warning"), "refused~")
		require.Contains(t, s.mustCLI("get", "hooks", c.Container), "image:10-a")

		_, err = s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		s.deleteWorkload("hooked")
		runs = s.runsOf(client.RunFilter{Container: c.Container, Point: client.PreDestroy})
		require.Len(t, runs, 1)
		require.Equal(t, client.RunStartFailed, runs[0].State)
		require.Contains(t, runs[0].Error, "was changed since the container was created")
	})
}
