package e2e

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
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

// hasImage reports whether the containers of a backend have an image, and so its
// hooks.
func hasImage(rt backend) bool { return rt.name() != processBackend{}.name() }

// listedBefore are the failpoints at which the hooks of the first container's image
// are on record, and the hook at post_start has not run.
var listedBefore = []string{"create/image_hooks/after", "create/post_start/before"}

// requireImageHooks checks the hooks of allPointsStateful after the server was
// killed at a failpoint: at each point those of the image came first, one after the
// other, and each once.
func (s *server) requireImageHooks(id, failpoint string) {
	t := s.t
	t.Helper()
	started := map[string]bool{} // containers whose hooks at post_start have a record
	destroyed, claimed := map[string][]client.Run{}, map[string][]client.Run{}
	first := ""
	for _, r := range s.runsOf(client.RunFilter{Workload: id}) {
		first = cmp.Or(first, r.Container)
		switch r.Point {
		case client.PostStart:
			started[r.Container] = true
		case client.PostClaim:
			claimed[r.Claim] = append(claimed[r.Claim], r)
		case client.PreDestroy:
			destroyed[r.Container] = append(destroyed[r.Container], r)
		}
	}
	for container, runs := range destroyed {
		want := []string{"image:pre_destroy", "destroy"}
		if !started[container] && !(container == first && slices.Contains(listedBefore, failpoint)) {
			want = want[1:] // the creation was interrupted before they were listed
		}
		require.Equal(t, want, orderOf(t, runs, interrupted), "at pre_destroy of container %s", container)
	}
	for id, runs := range claimed {
		c, err := s.GetClaim(t.Context(), id)
		require.NoError(t, err)
		want, others := []string{"image:post_claim", "image:10-a", "claim"}, interrupted
		if c.ActiveAt == nil { // it was interrupted, or the test has released it
			want, others = want[:min(len(runs), len(want))], append(slices.Clone(others), client.RunCancelled)
		}
		require.Equal(t, want, orderOf(t, runs, others), "at post_claim of claim %s", id)
	}
	require.NotEmpty(t, destroyed)
	require.NotEmpty(t, claimed)
}

// interrupted are the states of hooks whose server was killed, except succeeded.
var interrupted = []client.RunState{client.RunUnknown, client.RunLost, client.RunSkipped}

// orderOf returns the hooks of one point in the order in which they began. Those of
// the image have printed themselves, or ended as one of others.
func orderOf(t *testing.T, runs []client.Run, others []client.RunState) (names []string) {
	t.Helper()
	slices.SortStableFunc(runs, func(a, b client.Run) int { return a.StartedAt.Compare(b.StartedAt) })
	for _, r := range runs {
		names = append(names, r.Hook)
		if !strings.HasPrefix(r.Hook, hooks.ImagePrefix) {
			continue
		}
		if r.State == client.RunSucceeded {
			require.Equal(t, imageHook, r.Stdout.String(), r.Hook)
		} else {
			require.Contains(t, others, r.State, "%s: %s", r.Hook, r.Error)
		}
	}
	return names
}
