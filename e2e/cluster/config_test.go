package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Every template is filled in completely, and the network limits what pods can
// reach: it has one route, to the API server.
func TestConfigure(t *testing.T) {
	needPlugins(t)
	l := layout{dir: t.TempDir(), index: 7}
	require.NoError(t, configure(l))

	var network struct {
		Plugins []struct {
			IsGateway bool
			IPAM      struct {
				Ranges [][]struct{ Subnet, Gateway string }
				Routes []struct{ Dst string }
			}
		}
	}
	data, err := os.ReadFile(l.Path("etc/cni/10-bridge.conflist"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &network))
	require.Len(t, network.Plugins, 1)
	bridge := network.Plugins[0]
	require.False(t, bridge.IsGateway, "that would turn on forwarding for the machine")
	require.Equal(t, "10.213.7.0/24", bridge.IPAM.Ranges[0][0].Subnet)
	require.Len(t, bridge.IPAM.Routes, 1)
	require.Equal(t, "10.214.7.1/32", bridge.IPAM.Routes[0].Dst)

	for _, file := range []string{"etc/kubelet.yaml", "kubeconfig", "etc/scheduler.kubeconfig"} {
		data, err := os.ReadFile(l.Path(file))
		require.NoError(t, err)
		var any map[string]any
		require.NoError(t, yaml.UnmarshalStrict(data, &any), file)
		require.NotContains(t, string(data), "<no value>")
	}
}

// needPlugins skips where Debian's network plugins are not installed.
func needPlugins(t *testing.T) {
	t.Helper()
	if _, err := findPlugins(); err != nil {
		skipMissing(t, "no network plugins here: "+err.Error())
	}
}

// The kubeconfig and the keys are the administrator's alone.
func TestConfigureKeepsSecrets(t *testing.T) {
	needPlugins(t)
	l := layout{dir: t.TempDir()}
	require.NoError(t, configure(l))
	for _, file := range []string{"kubeconfig", "pki", "pki/admin.key", "pki/accounts.key"} {
		info, err := os.Stat(l.Path(file))
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, file)
	}
}
