package credential_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const fileKey = "0123456789abcdef"

// The file of a client's key is no key file: the key would stay valid when it is
// revoked. The warning does not have the key.
func TestKeyFileWithMadeKey(t *testing.T) {
	db := openDatabase(t)
	made := "hostler_" + strings.Repeat("k", 49)
	for content, warns := range map[string]bool{made: true, "ops: " + made + " role=viewer": true, "ops: " + fileKey: false, "hostler_x: " + fileKey: false} {
		var log strings.Builder
		s, err := credential.New(credential.Options{Store: db, KeyFile: writeFile(t, "keys", content), Log: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		require.NoError(t, s.Load(t.Context()))
		require.Equal(t, warns, strings.Contains(log.String(), "stays valid when that key is revoked"), content)
		require.NotContains(t, log.String(), made)
	}
}

// A line has a key with its role. What is wrong with it is an error that names the
// line and quotes nothing of it.
func TestKeyFile(t *testing.T) {
	db := openDatabase(t)
	load := func(content string) (*credential.Service, error) {
		s, err := credential.New(credential.Options{Store: db, KeyFile: writeFile(t, "keys", content)})
		require.NoError(t, err)
		return s, s.Load(t.Context())
	}
	s, err := load("# comment\n\nsecret-secret-secret\nops:" + fileKey + "\nt: " + fileKey + "1 role=tenant tenant=acme tenant=b-* workload=x-*\r\n")
	require.NoError(t, err)
	require.Equal(t, "key:line-3", mustBe(t, s, "secret-secret-secret").Actor)
	require.Equal(t, operator, mustBe(t, s, fileKey).Grants)
	require.Equal(t, []auth.Grant{{Role: auth.Tenant, Tenants: patterns(t, "acme", "b-*"), Workloads: patterns(t, "x-*")}}, mustBe(t, s, fileKey+"1").Grants)
	keys, err := s.Keys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 3)
	require.Equal(t, credential.File, keys[0].Source)
	require.Empty(t, keys[0].Prefix)
	_, err = s.RevokeKey(t.Context(), "ops")
	require.ErrorIs(t, err, credential.ErrFromFile)
	_, _, err = s.CreateKey(t.Context(), credential.NewKey{Name: "ops", Grants: operator})
	require.ErrorIs(t, err, credential.ErrExists)
	_, _, err = s.Bootstrap(t.Context(), "boot")
	require.ErrorIs(t, err, credential.ErrInvalid)
	mustKey(t, s, "t2", tenantOf(t, "acme")) // the file has an operator
	for content, want := range map[string]string{
		"":                                 "the file has no keys",
		"# nothing":                        "the file has no keys",
		"a:short":                          "line 1: the key is shorter than 16 characters",
		"a:0123456789abcdef s3cret":        "line 1: the key contains whitespace",
		"\na:0123456789abcdef s3cret=x":    "line 2: an attribute after the key is none of role, tenant and workload",
		"a:0123456789abcdef role=s3cret":   "line 1: attribute role: it is one of",
		"a:0123456789abcdef role=tenant":   "line 1: role tenant: name at least one tenant",
		"a:0123456789abcdef tenant=s3cret": "line 1: a key with tenants or workloads needs a role",
		"a:0123456789abcdef role=tenant tenant=s3*ret":       "line 1: attribute tenant: a pattern is",
		"a:0123456789abcdef role=viewer role=operator":       "line 1: attribute role: a key has one role",
		"a:0123456789abcdef\nb:0123456789abcdef role=viewer": "line 2: line 1 has the same key with another role",
	} {
		_, err := load(content)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3")
		require.NotContains(t, err.Error(), fileKey)
	}
	none, err := credential.New(credential.Options{Store: openDatabase(t), KeyFile: "/none"})
	require.NoError(t, err)
	require.ErrorContains(t, none.Load(t.Context()), "read the API keys: ")
}

// A file is followed, also when it is replaced, and behind the links of Kubernetes.
// A line that is gone is revoked. A file that is gone or invalid keeps what it had.
func TestFollowedKeyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		mount := func(name, content string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name, "keys"), []byte(content), 0o600))
			require.NoError(t, os.Symlink(name, filepath.Join(dir, "next")))
			require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "current")))
		}
		mount("1", "a:"+fileKey+"a\nb:"+fileKey+"b\n")
		path := filepath.Join(dir, "keys")
		require.NoError(t, os.Symlink("current/keys", path))
		s := newService(t, credential.Options{Store: openDatabase(t), KeyFile: path})
		run(t, s)
		kept, gone := follow(t, s, mustBe(t, s, fileKey+"a")), follow(t, s, mustBe(t, s, fileKey+"b"))
		mount("2", "a:"+fileKey+"a\nc:"+fileKey+"c role=viewer\n")
		pass(2 * time.Second)
		refused(t, s, fileKey+"b", auth.ErrInvalidCredential)
		mustEnd(t, gone, auth.ErrRevoked, 0)
		mustLast(t, kept)
		require.True(t, mustBe(t, s, fileKey+"c").Has(auth.Viewer))

		changed := follow(t, s, mustBe(t, s, fileKey+"c"))
		require.NoError(t, os.WriteFile(path, []byte("a:"+fileKey+"a\nc:"+fileKey+"c role=author workload=*\n"), 0o600))
		pass(2 * time.Second)
		mustEnd(t, changed, auth.ErrRevoked, 0)
		require.True(t, mustBe(t, s, fileKey+"c").Has(auth.Author))

		for _, breakIt := range []func() error{
			func() error { return os.WriteFile(path, []byte("a:short\n"), 0o600) },
			func() error { return os.WriteFile(path, nil, 0o600) },
			func() error { return os.WriteFile(path, []byte(strings.Repeat("#", 9<<20)), 0o600) },
			func() error { return os.Remove(path) },
			func() error { return os.Mkdir(path, 0o700) },
		} {
			require.NoError(t, breakIt())
			pass(2 * time.Second)
			mustBe(t, s, fileKey+"a")
			require.Len(t, s.Problems(), 1)
		}
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.WriteFile(path, []byte("d:"+fileKey+"d\n"), 0o600))
		pass(2 * time.Second)
		mustBe(t, s, fileKey+"d")
		refused(t, s, fileKey+"a", auth.ErrInvalidCredential)
		mustEnd(t, kept, auth.ErrRevoked, 0)
		require.Empty(t, s.Problems())
	})
}

const bindingsText = `
- name: ci
  kind: oidc
  issuer: https://issuer.example
  subject: "repo:*"
  claims: {groups: builders}
  role: author
  workloads: ["*"]
- name: people
  kind: oidc
  issuer: https://issuer.example
  role: tenant
  tenant_claim: teams
- name: admin
  kind: unix
  subject: "1000"
  role: operator
`

// A file of bindings is read strictly.
func TestBindingsFile(t *testing.T) {
	db := openDatabase(t)
	load := func(content string) (*credential.Service, error) {
		s, err := credential.New(credential.Options{Store: db, BindingsFile: writeFile(t, "bindings", content)})
		require.NoError(t, err)
		return s, s.Load(t.Context())
	}
	s, err := load(bindingsText)
	require.NoError(t, err)
	list, err := s.Bindings(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, credential.Binding{Name: "admin", Kind: auth.UnixSubject, Subject: new(activity.Exactly("1000")), Role: auth.Operator, Source: credential.File}, list[0])
	require.ErrorIs(t, s.DeleteBinding(t.Context(), "ci"), credential.ErrFromFile)
	_, _, err = s.PutBinding(t.Context(), list[0])
	require.ErrorIs(t, err, credential.ErrFromFile)
	s, err = load("")
	require.NoError(t, err)
	require.False(t, s.IsOpen(), "a server with a file of bindings")
	for content, want := range map[string]string{
		"- name: a\n  colour: red\n":                                                     "line 2: field colour not found",
		"- name: a\n  kind: unix\n  role: king\n":                                        "line 1: invalid credential request: role \"king\"",
		"- name: a\n  kind: dns\n  role: operator\n":                                     "kind \"dns\"",
		"- {name: a, kind: oidc, role: viewer}\n":                                        "the issuer has",
		"- {name: a, kind: cert, role: viewer, issuer: x}\n":                             "only tokens have an issuer",
		"- {name: a, kind: oidc, issuer: x, role: operator}\n":                           "name the subject or a claim",
		"- {name: a, kind: unix, role: viewer}\n- {name: a, kind: unix, role: viewer}\n": "line 2: line 1 has a binding of the same name",
		"- {name: a, kind: oidc, issuer: x, role: viewer, tenant_claim: t}\n":            "tenant_claim is for role tenant",
		"- {name: a, kind: oidc, issuer: x, role: tenant}\n":                             "name at least one tenant",
		"a: b\n":        "cannot unmarshal",
		"[]\n---\n[]\n": "more than one document",
		"- null\n":      "an item of the list is empty",
	} {
		_, err := load(content)
		require.ErrorContains(t, err, want, content)
	}
}

func writeAgain(path, content string) error { return os.WriteFile(path, []byte(content), 0o600) }
