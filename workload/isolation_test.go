package workload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// An author may request more isolation, but not less.
func TestParseIsolation(t *testing.T) {
	const base = "id: a\nimage: b\n"
	w, err := Parse([]byte(base+"runtime: runsc\nsecurity_opt: ['seccomp=x', 'apparmor:y', 'no-new-privileges:true']\n"+
		"userns_mode: private\nnetwork_mode: none\n"), "")
	require.NoError(t, err)
	want := w.Spec("c").Isolation
	require.Equal(t, "runsc", want.Runtime)
	require.Equal(t, "x", want.Profile("seccomp"))
	require.Equal(t, "y", want.Profile("apparmor"))
	require.Equal(t, runtime.UsernsPrivate, want.UsernsMode)
	require.Equal(t, runtime.NetworkNone, want.NetworkMode)
	plain, err := Parse([]byte(base), "")
	require.NoError(t, err)
	require.NotEqual(t, plain.Revision, w.Revision)
	require.Empty(t, plain.Spec("c").Isolation.FirstField())

	for text, field := range map[string]string{
		"runtime: a/b\n":                              "runtime",
		"security_opt: [seccomp=unconfined]\n":        "security_opt[0]",
		"security_opt: ['apparmor:unconfined']\n":     "security_opt[0]",
		"security_opt: [seccomp=../x]\n":              "security_opt[0]",
		"security_opt: [seccomp=/etc/x]\n":            "security_opt[0]",
		"security_opt: ['no-new-privileges:false']\n": "security_opt[0]",
		"security_opt: [label=disable]\n":             "security_opt[0]",
		"security_opt: [seccomp=a, 'seccomp:b']\n":    "security_opt[1]",
		"userns_mode: keep-id\n":                      "userns_mode",
		"network_mode: host\n":                        "network_mode",
		"network_mode: none\nnetworks: [x]\n":         "networks",
		"network_mode: none\nports: [1]\n":            "ports",
	} {
		_, err := Parse([]byte(base+text), "")
		require.ErrorContains(t, err, field, text)
	}
}
