package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/internal/testenv"
)

// systemd accepts the unit, apart from the programs, which are not installed here.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		testenv.Skip(t, "systemd", "there is no systemd-analyze: %s", err)
	}
	unit, err := os.ReadFile("systemd/hostler.service")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(unit), "/usr/local/bin/hostler serve", "/bin/true serve")
	require.NotEqual(t, string(unit), text)
	path := filepath.Join(t.TempDir(), "hostler.service")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	verify := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", path)
	out, err := verify.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}

// Each setting of the unit and of the compose file is a flag of the server.
func TestSettingsAreFlags(t *testing.T) {
	t.Parallel()
	cli, err := os.ReadFile("../docs/cli.md")
	require.NoError(t, err)
	setting := regexp.MustCompile(`\bHOSTLER_([A-Z_]+)(=|: [^}])`)
	for _, name := range []string{"systemd/hostler.service", "compose/compose.yaml"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		found := setting.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, found)
		for _, m := range found {
			flag := "--" + strings.ToLower(strings.ReplaceAll(m[1], "_", "-")) + " "
			require.Contains(t, string(cli), flag, "%s: HOSTLER_%s", name, m[1])
		}
	}
}

// composeFile is what the tests read of a compose file that docker-compose has
// resolved.
type composeFile struct {
	Services map[string]struct {
		NetworkMode string            `yaml:"network_mode"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Ports       []string          `yaml:"ports"`
		Volumes     []string          `yaml:"volumes"`
	} `yaml:"services"`
	Secrets map[string]struct {
		File string `yaml:"file"`
	} `yaml:"secrets"`
}

// Compose accepts the file. What it mounts exists, nothing listens for other
// machines, and no secret is in it.
func TestCompose(t *testing.T) {
	t.Parallel()
	compose, err := exec.LookPath("docker-compose")
	if err != nil {
		testenv.Skip(t, "compose", "there is no docker-compose: %s", err)
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(".")))
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "compose/make-secrets")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	config := exec.CommandContext(t.Context(), compose, "-f", "compose/compose.yaml", "config")
	config.Dir, config.Env = dir, append(os.Environ(), "DOCKER_GID=999")
	out, err = config.Output()
	require.NoError(t, err)
	var got composeFile
	require.NoError(t, yaml.Unmarshal(out, &got))
	require.Len(t, got.Services, 4)
	for name, s := range got.Services {
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s", name, port)
		}
		if s.NetworkMode == "host" {
			listens := strings.Join(s.Command, " ") + s.Environment["HOSTLER_LISTEN"] + s.Environment["GF_SERVER_HTTP_ADDR"]
			require.Contains(t, listens, "127.0.0.1", name)
		}
		for _, volume := range s.Volumes {
			if source, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(source, dir) {
				require.FileExists(t, existing(source), "%s: %s", name, volume)
			}
		}
	}
	for name, secret := range got.Secrets {
		content, err := os.ReadFile(secret.File)
		require.NoError(t, err, name)
		require.NotContains(t, string(out), strings.TrimSpace(string(content)), name)
	}
	require.FileExists(t, filepath.Join(dir, "compose/secrets/operator_key"))
}

// existing returns a path, or a file in it if it is a directory.
func existing(path string) string {
	if found, _ := filepath.Glob(filepath.Join(path, "*")); len(found) > 0 {
		return found[0]
	}
	return path
}

// Secrets are made once, differ, and only their owner can read them.
func TestMakeSecrets(t *testing.T) {
	t.Parallel()
	read := func(dir string) map[string]string {
		got := map[string]string{}
		for range 2 { // the second one changes nothing
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "make-secrets")).CombinedOutput()
			require.NoError(t, err, "%s", out)
			files, err := os.ReadDir(filepath.Join(dir, "secrets"))
			require.NoError(t, err)
			require.Len(t, files, 6)
			for _, f := range files {
				content, err := os.ReadFile(filepath.Join(dir, "secrets", f.Name()))
				require.NoError(t, err)
				if before, known := got[f.Name()]; known {
					require.Equal(t, before, string(content), f.Name())
				}
				got[f.Name()] = string(content)
			}
		}
		info, err := os.Stat(filepath.Join(dir, "secrets"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		return got
	}
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		require.NoError(t, os.CopyFS(dir, os.DirFS("compose")))
	}
	a, b := read(first), read(second)
	for name := range a {
		require.NotEqual(t, a[name], b[name], name)
		require.Greater(t, len(a[name]), 40, name)
	}
	require.Contains(t, a["keys"], "operator: "+strings.TrimSpace(a["operator_key"])+"\n")
	require.Contains(t, a["keys"], "prometheus: "+strings.TrimSpace(a["metrics_key"])+" role=metrics\n")
	require.Contains(t, a["store"], strings.TrimSpace(a["database_password"]))
}
