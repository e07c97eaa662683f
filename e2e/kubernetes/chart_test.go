package kubernetes

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite deploy/manifests")

// The chart passes helm lint, also with every option set.
func TestChartLint(t *testing.T) {
	t.Parallel()
	for name, values := range validValues {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t, values, "lint", "--strict", "--kube-version", kubeVersion, chart, "--values", "-")
			require.NoError(t, err)
		})
	}
}

// validValues are typical values.
var validValues = map[string]string{
	"default": "",
	"trial":   "store: { sqlite: { persistent: false } }\nnetworkPolicy: { enabled: false }\npodDisruptionBudget: { enabled: false }",
	"several": `
store: { type: postgres, postgres: { existingSecret: database } }
replicas: 3
workloads: { namespace: boxes, existingConfigMap: files }
apiKeys: { existingSecret: keys, key: file }
serviceMonitor: { enabled: true, labels: { release: prometheus }, keySecret: { name: prometheus } }
networkPolicy: { server: { from: [], egress: [{ to: [{ podSelector: {} }] }] }, containers: { from: [], dns: false, internet: false } }
image: { pullSecrets: [{ name: registry }] }
serviceAccount: { name: mine }
service: { type: LoadBalancer, port: 80, annotations: { a: b } }
topologySpreadConstraints: [{ maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway }]
tolerations: [{ operator: Exists }]
extraEnv: [{ name: AWS_REGION, value: eu-central-1 }]
credentials: { existingSecret: credentials, items: [{ key: registry-token, path: registry/token }] }
stateKeys: { existingSecret: state-keys, key: current }
hooks:
  allow: [10.1.0.0/16, vault.internal]
  deny: ["*.corp.example"]
  own: [hostler.example]
  gcp: true
  gcpHosts: [storage.googleapis.com, run.googleapis.com]
  secrets: { existingSecret: hook-secrets, allow: { SLACK_URL: "agent-*@hooks.slack.com" } }
priorityClassName: high`,
	"access": accessValues,
}

// The API server accepts every field of the rendered objects.
func TestManifestsAreAccepted(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	namespace := c.namespace(t, "restricted")
	for name, values := range validValues {
		t.Run(name, func(t *testing.T) {
			// The namespace and the operator's kinds may not exist in the cluster.
			values = strings.NewReplacer("namespace: boxes", "namespace: "+namespace,
				"serviceMonitor: { enabled: true", "serviceMonitor: { enabled: false").Replace(values)
			text, err := helm(t, values, "template", "hostler", chart, "--namespace", namespace, "--kube-version", kubeVersion, "--values", "-")
			require.NoError(t, err)
			for _, o := range objects(t, text) {
				c.mustDo(t, "POST", collectionPath(t, o)+"?dryRun=All&fieldValidation=Strict", o, nil)
			}
		})
	}
}

// collectionPath returns the path to which a create request of an object goes.
func collectionPath(t testing.TB, o object) string {
	t.Helper()
	plural := strings.ToLower(o["kind"].(string)) + "s"
	plural = strings.Replace(plural, "policys", "policies", 1)
	group := "/apis/" + o["apiVersion"].(string)
	if o["apiVersion"] == "v1" {
		group = "/api/v1"
	}
	return group + "/namespaces/" + lookup(t, o, "metadata", "namespace").(string) + "/" + plural
}

// Invalid values are rejected before anything is installed.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for values, words := range map[string]string{
		"replicas: 2":                                                 "several servers need store.type postgres",
		"store: { type: postgres }":                                   "a Secret with the database's URL is needed",
		"store: { type: mysql }":                                      "/store/type",
		"replica: 3":                                                  "replica",
		"workloads: { files: { a.txt: '' } }":                         "a.txt",
		"networkPolicy: { container: {} }":                            "container",
		"retention: 30d":                                              "/retention",
		"logLevel: loud":                                              "/logLevel",
		"hooks: { allow: 'a,b' }":                                     "/hooks/allow",
		"hooks: { own: ['a,b'] }":                                     "/hooks/own",
		"hooks: { allowed: [] }":                                      "allowed",
		"hooks: { secrets: { allow: { 'a-b': x } } }":                 "a-b",
		"credentials: { items: [{ key: a }] }":                        "path",
		"stateKeys: { file: a }":                                      "file",
		"stateKeys: { existingSecret: A_b }":                          "/stateKeys/existingSecret",
		"apiKeys: { key: mine }":                                      "Secret of your own",
		"tls: { cert: a }":                                            "cert",
		"tls: { clientCA: { existingSecret: a } }":                    "it needs tls.existingSecret",
		"oidc: { issuers: [{ issuer: a }] }":                          "audiences",
		"bindings: { items: [{ name: a, kind: key, role: tenant }] }": "kind",
		"bindings: { items: [{ name: a, kind: cert, role: root }] }":  "role",
		"quotas: { server: claims=1 }":                                "server",
		"extraArgs: --a":                                              "/extraArgs",
		"serviceMonitor: { enabled: true }\napiKeys: { existingSecret: mine }": "keySecret",
	} {
		_, err := render(t, values)
		require.ErrorContains(t, err, words, values)
	}
}

// A SQLite file has one server at a time. A PostgreSQL database has any number of
// servers, which are replaced one after another.
func TestStoreReplicas(t *testing.T) {
	t.Parallel()
	text, err := render(t, "")
	require.NoError(t, err)
	one := findKind(t, objects(t, text), "StatefulSet")
	require.EqualValues(t, 1, lookup(t, one, "spec", "replicas"))
	require.NotContains(t, text, "kind: Deployment")
	require.NotContains(t, text, "HOSTLER_STORE")

	text, err = render(t, validValues["several"])
	require.NoError(t, err)
	all := objects(t, text)
	several := findKind(t, all, "Deployment")
	require.EqualValues(t, 3, lookup(t, several, "spec", "replicas"))
	require.EqualValues(t, 0, lookup(t, several, "spec", "strategy", "rollingUpdate", "maxUnavailable"))
	require.NotContains(t, text, "PersistentVolumeClaim")
	require.NotContains(t, text, "kind: Secret", "all secrets are the operator's")
	require.Contains(t, text, "name: HOSTLER_STORE")
	require.Equal(t, "boxes", lookup(t, findKind(t, all, "Role"), "metadata", "namespace"))
	require.Equal(t, "mine", lookup(t, findKind(t, all, "RoleBinding"), "subjects", 0, "name"))
	require.Equal(t, "prometheus", lookup(t, findKind(t, all, "ServiceMonitor"),
		"spec", "endpoints", 0, "authorization", "credentials", "name"))
}

// Where requests of hooks may go, and their secrets, are settings of the server.
// Its Service is always its own.
func TestHookValues(t *testing.T) {
	t.Parallel()
	server := func(values, kind string) (variables map[string]any, spec any) {
		text, err := render(t, values)
		require.NoError(t, err)
		spec = lookup(t, findKind(t, objects(t, text), kind), "spec", "template", "spec")
		variables = map[string]any{}
		for _, v := range lookup(t, spec, "containers", 0, "env").([]any) {
			if name := lookup(t, v, "name").(string); strings.Contains(name, "HOOKS") || strings.Contains(name, "SECRET") || strings.Contains(name, "CREDENTIALS") {
				variables[name] = lookup(t, v, "value")
			}
		}
		return variables, spec
	}
	variables, spec := server("", "StatefulSet")
	require.Equal(t, map[string]any{"HOSTLER_HOOKS_OWN": "hostler.hostler.svc"}, variables)
	require.NotContains(t, lookup(t, spec, "containers", 0), "envFrom")

	variables, spec = server(validValues["several"], "Deployment")
	require.Equal(t, map[string]any{
		"HOSTLER_HOOKS_ALLOW":            "10.1.0.0/16,vault.internal",
		"HOSTLER_HOOKS_DENY":             "*.corp.example",
		"HOSTLER_HOOKS_OWN":              "hostler.example,hostler.hostler.svc",
		"HOSTLER_HOOKS_GCP":              "true",
		"HOSTLER_HOOKS_GCP_HOSTS":        "storage.googleapis.com,run.googleapis.com",
		"HOSTLER_SECRET_SLACK_URL_ALLOW": "agent-*@hooks.slack.com",
		"HOSTLER_CREDENTIALS_DIR":        "/etc/hostler/credentials",
	}, variables)
	require.Equal(t, []any{object{"prefix": "HOSTLER_SECRET_", "secretRef": object{"name": "hook-secrets"}}}, lookup(t, spec, "containers", 0, "envFrom"))
	require.Contains(t, lookup(t, spec, "volumes"), object{"name": "credentials", "secret": object{
		"secretName": "credentials", "defaultMode": float64(0o440), "items": []any{object{"key": "registry-token", "path": "registry/token"}}}})
	require.Contains(t, lookup(t, spec, "containers", 0, "volumeMounts"),
		object{"name": "credentials", "mountPath": "/etc/hostler/credentials", "readOnly": true})
}

// A Secret with state keys is the server's file of them, which only its group can
// read; without one the server has none.
func TestStateKeyValues(t *testing.T) {
	t.Parallel()
	text, err := render(t, "")
	require.NoError(t, err)
	require.NotContains(t, text, "STATE_KEY")
	require.NotContains(t, text, "state-keys")
	text, err = render(t, validValues["several"])
	require.NoError(t, err)
	spec := lookup(t, findKind(t, objects(t, text), "Deployment"), "spec", "template", "spec")
	require.Contains(t, lookup(t, spec, "containers", 0, "env"), object{"name": "HOSTLER_STATE_KEY_FILE", "value": "/etc/hostler/state-keys/keys"})
	require.Contains(t, lookup(t, spec, "volumes"), object{"name": "state-keys", "secret": object{
		"secretName": "state-keys", "defaultMode": float64(0o440), "items": []any{object{"key": "current", "path": "keys"}}}})
	require.Contains(t, lookup(t, spec, "containers", 0, "volumeMounts"),
		object{"name": "state-keys", "mountPath": "/etc/hostler/state-keys", "readOnly": true})
}

// deploy/manifests is the rendered chart, for users without Helm. Run with
// -update after a change.
func TestManifests(t *testing.T) {
	const path = root + "/deploy/manifests/hostler.yaml"
	text, err := render(t, "apiKeys: { existingSecret: hostler-api-keys }")
	require.NoError(t, err)
	var kept strings.Builder
	kept.WriteString("# Written by `make manifests` from deploy/chart. See docs/kubernetes.md.\n")
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "# Source: ") && !strings.Contains(line, "helm.sh/") && !strings.Contains(line, "managed-by: Helm") {
			kept.WriteString(line)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(kept.String()), 0o644)) //nolint:gosec // world-readable on purpose
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, kept.String(), string(have), "the chart has changed: make manifests")
}
