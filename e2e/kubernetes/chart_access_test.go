package kubernetes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// accessValues set everything about who may do what.
const accessValues = `
tls: { existingSecret: api-tls, clientCA: { existingSecret: authorities, key: clients.crt } }
apiKeys: { existingSecret: keys }
oidc:
  issuers:
    - issuer: https://kubernetes.default.svc
      audiences: [hostler]
      ca_file: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
      token_file: /var/run/secrets/kubernetes.io/serviceaccount/token
  files: { existingSecret: oidc-files }
bindings:
  items:
    - { name: ci, kind: oidc, issuer: "https://kubernetes.default.svc", subject: "system:serviceaccount:ci:*", role: author, workloads: ["ci-*"] }
    - { name: admins, kind: cert, subject: admin, role: operator }
quotas: { tenant: "claims=10,requests-per-second=50", workload: claims=100 }
extraArgs: [--port-domain=ports.example.com]
serviceMonitor: { enabled: true, keySecret: { name: prometheus }, tlsConfig: { ca: { secret: { name: api-tls, key: ca.crt } } } }`

// serverPod returns the pod's spec, and the variables of the server whose names have a
// prefix.
func serverPod(t *testing.T, all []object, prefixes ...string) (spec any, variables map[string]any) {
	t.Helper()
	spec = lookup(t, findKind(t, all, "StatefulSet"), "spec", "template", "spec")
	variables = map[string]any{}
	for _, v := range lookup(t, spec, "containers", 0, "env").([]any) {
		for _, prefix := range prefixes {
			if name := lookup(t, v, "name").(string); strings.HasPrefix(name, prefix) {
				variables[name] = lookup(t, v, "value")
			}
		}
	}
	return spec, variables
}

// Without settings, the API is served as plain HTTP to clients with a key. With them,
// the server gets the files, and everything that calls it uses TLS.
func TestAccessValues(t *testing.T) {
	t.Parallel()
	prefixes := []string{"HOSTLER_TLS_", "HOSTLER_OIDC_", "HOSTLER_BINDINGS_", "HOSTLER_QUOTA_"}
	text, err := render(t, "")
	require.NoError(t, err)
	spec, variables := serverPod(t, objects(t, text), prefixes...)
	require.Empty(t, variables)
	require.Equal(t, []any{"serve"}, lookup(t, spec, "containers", 0, "args"))
	require.NotContains(t, text, "scheme")
	require.NotContains(t, text, "issuers")

	text, err = render(t, accessValues)
	require.NoError(t, err)
	all := objects(t, text)
	spec, variables = serverPod(t, all, prefixes...)
	require.Equal(t, map[string]any{
		"HOSTLER_TLS_CERT":       "/etc/hostler/tls/tls.crt",
		"HOSTLER_TLS_KEY":        "/etc/hostler/tls/tls.key",
		"HOSTLER_TLS_CLIENT_CA":  "/etc/hostler/client-ca/ca.crt",
		"HOSTLER_OIDC_FILE":      "/etc/hostler/oidc/issuers.yaml",
		"HOSTLER_BINDINGS_FILE":  "/etc/hostler/bindings/bindings.yaml",
		"HOSTLER_QUOTA_TENANT":   "claims=10,requests-per-second=50",
		"HOSTLER_QUOTA_WORKLOAD": "claims=100",
	}, variables)
	require.Equal(t, []any{"serve", "--port-domain=ports.example.com"}, lookup(t, spec, "containers", 0, "args"))
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		require.Equal(t, "HTTPS", lookup(t, spec, "containers", 0, probe, "httpGet", "scheme"), probe)
	}
	require.Equal(t, "https", lookup(t, findKind(t, all, "Service"), "spec", "ports", 0, "appProtocol"))
	endpoint := lookup(t, findKind(t, all, "ServiceMonitor"), "spec", "endpoints", 0)
	require.Equal(t, "https", lookup(t, endpoint, "scheme"))
	require.Equal(t, object{
		"serverName": "hostler.hostler.svc", "ca": object{"secret": object{"name": "api-tls", "key": "ca.crt"}},
	}, lookup(t, endpoint, "tlsConfig"))
}

// Each file of a setting comes from a volume that is mounted where the server reads
// it, and no volume is mounted at one file: such a mount does not follow changes.
func TestAccessFiles(t *testing.T) {
	t.Parallel()
	text, err := render(t, accessValues)
	require.NoError(t, err)
	all := objects(t, text)
	spec, _ := serverPod(t, all)
	volumes := lookup(t, spec, "volumes").([]any)
	mounts := lookup(t, spec, "containers", 0, "volumeMounts").([]any)
	for name, source := range map[string]object{
		"tls": {"secret": object{"secretName": "api-tls", "defaultMode": float64(0o440),
			"items": []any{object{"key": "tls.crt", "path": "tls.crt"}, object{"key": "tls.key", "path": "tls.key"}}}},
		"client-ca": {"secret": object{"secretName": "authorities", "defaultMode": float64(0o440),
			"items": []any{object{"key": "clients.crt", "path": "ca.crt"}}}},
		"oidc":       {"configMap": object{"name": "hostler-issuers"}},
		"oidc-files": {"secret": object{"secretName": "oidc-files", "defaultMode": float64(0o440)}},
		"bindings": {"configMap": object{"name": "hostler-bindings",
			"items": []any{object{"key": "bindings.yaml", "path": "bindings.yaml"}}}},
	} {
		source["name"] = name
		require.Contains(t, volumes, source)
		require.Contains(t, mounts, object{"name": name, "mountPath": "/etc/hostler/" + name, "readOnly": true})
	}
	files := map[string]any{}
	for _, o := range all {
		if o["kind"] == "ConfigMap" {
			for name, text := range lookup(t, o, "data").(object) {
				files[name] = text
			}
		}
	}
	require.Contains(t, files["issuers.yaml"], "issuer: https://kubernetes.default.svc")
	require.Contains(t, files["bindings.yaml"], "subject: system:serviceaccount:ci:*")
	require.Contains(t, files["bindings.yaml"], "role: operator")

	text, err = render(t, "bindings: { existingConfigMap: mine, key: file }")
	require.NoError(t, err)
	spec, variables := serverPod(t, objects(t, text), "HOSTLER_BINDINGS_")
	require.Len(t, variables, 1)
	require.Contains(t, lookup(t, spec, "volumes"), object{"name": "bindings", "configMap": object{
		"name": "mine", "items": []any{object{"key": "file", "path": "bindings.yaml"}}}})
	require.NotContains(t, text, "kind: ConfigMap")
}
