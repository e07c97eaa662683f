package docker

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// What an engine does not support is rejected, by field and with a hint.
func TestCheckIsolation(t *testing.T) {
	plain := system.Info{
		Runtimes:        map[string]system.RuntimeWithStatus{"runc": {}, "runsc": {}},
		SecurityOptions: []string{"name=seccomp,profile=default"},
	}
	rich := plain
	rich.SecurityOptions = []string{"name=apparmor", "name=userns"}
	for _, c := range []struct {
		engine system.Info
		want   runtime.Isolation
		field  string
	}{
		{plain, runtime.Isolation{}, ""},
		{plain, runtime.Isolation{Runtime: "runsc", UsernsMode: "host", NetworkMode: "none"}, ""},
		{plain, runtime.Isolation{Runtime: "kata"}, "runtime"},
		{plain, runtime.Isolation{SecurityOpt: []string{"apparmor=strict"}}, "security_opt"},
		{plain, runtime.Isolation{UsernsMode: "private"}, "userns_mode"},
		{rich, runtime.Isolation{SecurityOpt: []string{"apparmor:strict"}, UsernsMode: "private"}, ""},
		{rich, runtime.Isolation{UsernsMode: "host"}, "userns_mode"},
	} {
		err := checkIsolation(c.engine, c.want)
		if c.field == "" {
			require.NoError(t, err, "%+v", c.want)
			continue
		}
		var refused *runtime.SpecError
		require.ErrorAs(t, err, &refused, "%+v", c.want)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.Equal(t, c.field, refused.Field)
		require.NotEmpty(t, refused.Hint)
	}
	require.ErrorContains(t, checkIsolation(plain, runtime.Isolation{Runtime: "kata"}), "runc, runsc")
}

// The settings that the engine receives have every requested option; a profile
// comes only from the operator's directory.
func TestApplyIsolation(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "strict.json"), []byte("{ \"defaultAction\": \"SCMP_ACT_ERRNO\" }\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{"), 0o600))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link.json")))
	binary := shimBinary{hash: strings.Repeat("0", 64)}
	r := &Runtime{profiles: dir, shim: binary}
	set := func(r *Runtime, options ...string) (*container.HostConfig, error) {
		h := r.hostConfig(runtime.Spec{}, runtime.NetworkNone)
		return h, r.applyIsolation(h, runtime.Isolation{Runtime: "runsc", SecurityOpt: options})
	}
	h, err := set(r, "no-new-privileges:true", "seccomp=strict", "apparmor=mine")
	require.NoError(t, err)
	require.Equal(t, "runsc", h.Runtime)
	require.True(t, h.NetworkMode.IsNone())
	require.Equal(t, []string{"no-new-privileges", "apparmor=mine", `seccomp={"defaultAction":"SCMP_ACT_ERRNO"}`}, h.SecurityOpt)

	h, err = set(&Runtime{shim: binary}, "seccomp=default")
	require.NoError(t, err)
	require.Equal(t, []string{"no-new-privileges"}, h.SecurityOpt)
	for _, name := range []string{"absent", "broken", "link", "../x"} {
		_, err = set(r, "seccomp="+name)
		require.ErrorIs(t, err, runtime.ErrInvalid, name)
	}
	_, err = set(&Runtime{shim: binary}, "seccomp=strict")
	require.ErrorContains(t, err, "--seccomp-profiles")
}

// The engine is queried only for a non-zero Isolation. No response is an error.
func TestCheckQueriesEngineOnlyWhenNeeded(t *testing.T) {
	k := &signalEngine{status: http.StatusInternalServerError}
	r := newStopRuntime(t, k, nil)
	require.NoError(t, r.Check(t.Context(), runtime.Spec{}))
	require.Empty(t, k.signals)
	err := r.Check(t.Context(), runtime.Spec{Isolation: runtime.Isolation{Runtime: "runsc"}})
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	require.Len(t, k.signals, 1)
	err = r.Check(t.Context(), runtime.Spec{Isolation: runtime.Isolation{SecurityOpt: []string{"seccomp=x"}}})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.True(t, strings.Contains(err.Error(), "security_opt"), err)
}
