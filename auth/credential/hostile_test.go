package credential_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// A key file that a program writes in parts gives no key more than its whole line
// does: a line without its role would be an operator's.
func TestHalfWrittenKeyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := "ops:" + fileKey + "o\n"
		path := writeFile(t, "keys", old)
		s := newService(t, credential.Options{Store: openDatabase(t), KeyFile: path})
		run(t, s)
		whole := old + "app:" + fileKey + "a role=tenant tenant=acme workload=web-*\n"
		for _, part := range []int{len(old) / 2, len(old) + len("app:"+fileKey+"a"), len(whole) - 1} {
			require.NoError(t, writeAgain(path, whole[:part]))
			pass(900 * time.Millisecond)
			mustBe(t, s, fileKey+"o")
			refused(t, s, fileKey+"a", auth.ErrInvalidCredential)
			require.NoError(t, writeAgain(path, old+"#"))
			pass(400 * time.Millisecond)
		}
		require.NoError(t, writeAgain(path, whole))
		pass(2 * time.Second)
		require.Equal(t, []auth.Role{auth.Tenant}, mustBe(t, s, fileKey+"a").Roles())
	})
}

// Nor does a file of bindings: an item without the claims that it requires is for all
// holders of a token.
func TestHalfWrittenBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := writeFile(t, "bindings", "")
		tokens := issuer{"eyJ.any.one": {Kind: auth.OIDCSubject, Issuer: "https://i", Name: "mallory"}}
		s := newService(t, credential.Options{Store: openDatabase(t), BindingsFile: path, Tokens: tokens})
		run(t, s)
		part := "- name: ci\n  kind: oidc\n  issuer: https://i\n  role: author\n  workloads: ['*']\n"
		require.NoError(t, writeAgain(path, part))
		pass(1100 * time.Millisecond)
		_, err := as(t, s, "eyJ.any.one")
		require.ErrorIs(t, err, auth.ErrInvalidCredential)
		require.NoError(t, writeAgain(path, part+"  claims: {repository: acme/web}\n"))
		pass(2 * time.Second)
		list, err := s.Bindings(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		_, err = as(t, s, "eyJ.any.one")
		require.ErrorIs(t, err, auth.ErrInvalidCredential)
	})
}

// A line that another one of the same length replaces is revoked, whatever the time
// of the file: programs that copy files set it.
func TestRevokedLineAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := writeFile(t, "keys", "ops:"+fileKey+"o\nold:"+fileKey+"a\n")
		at := time.Unix(1, 0)
		require.NoError(t, os.Chtimes(path, at, at))
		s := newService(t, credential.Options{Store: openDatabase(t), KeyFile: path})
		run(t, s)
		ended := follow(t, s, mustBe(t, s, fileKey+"a"))
		pass(10 * time.Second)
		require.NoError(t, writeAgain(path, "ops:"+fileKey+"o\n#ld:"+fileKey+"a\n"))
		require.NoError(t, os.Chtimes(path, at, at))
		pass(2 * time.Second)
		refused(t, s, fileKey+"a", auth.ErrInvalidCredential)
		mustEnd(t, ended, auth.ErrRevoked, 0)
	})
}

// What is not a regular file neither blocks nor changes anything.
func TestKeyFileOfAnotherKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := writeFile(t, "keys", "ops:"+fileKey+"o\n")
		s := newService(t, credential.Options{Store: openDatabase(t), KeyFile: path})
		stop := run(t, s)
		for _, target := range []string{"/dev/zero", "/dev/stdin", path} {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Symlink(target, path))
			pass(2 * time.Second)
			mustBe(t, s, fileKey+"o")
			require.Len(t, s.Problems(), 1)
		}
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(filepath.Dir(path), path))
		pass(2 * time.Second)
		mustBe(t, s, fileKey+"o")
		stop()
	})
}

// A server that has no credential, and cannot know whether another one has made the
// first, is not open: nor to the tokens that its clients made.
func TestOpenServerWithoutItsDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openDatabase(t)
		cut := &database{DB: db.DB}
		a, b := newService(t, credential.Options{Store: db}), newService(t, credential.Options{Store: cut})
		run(t, b)
		token := mustToken(t, b, auth.WithoutCredentials(), credential.NewToken{Tenant: "acme"})
		mustBe(t, b, token)
		cut.isDown.Store(true)
		mustKey(t, a, "op", operator)
		pass(3 * time.Second)
		require.False(t, b.IsOpen())
		_, err := b.Authenticate(t.Context(), auth.Request{})
		require.ErrorIs(t, err, auth.ErrUnavailable)
		refused(t, b, token, auth.ErrUnavailable)
		cut.isDown.Store(false)
		pass(2 * time.Second)
		require.False(t, b.IsOpen())
		refused(t, b, token, auth.ErrInvalidCredential)
		_, err = b.Authenticate(t.Context(), auth.Request{})
		require.ErrorIs(t, err, auth.ErrNoCredential)
	})
}

// A hash of another length, in a database that is damaged, is an error: none is the
// hash of something else.
func TestDamagedHash(t *testing.T) {
	whole := strings.Repeat("ab", 32)
	require.NoError(t, credential.ParseHash(whole))
	for _, text := range []string{"", "ab", whole[:62], whole + "ab", "zz" + whole[2:]} {
		require.Error(t, credential.ParseHash(text), text)
	}
}

// No binding makes all users of the machine, or all holders of a certificate,
// operators only because its subject was forgotten.
func TestOperatorsBindingNamesItsSubject(t *testing.T) {
	s := newService(t, credential.Options{Store: openDatabase(t), Tokens: issuer{}})
	for _, kind := range []auth.SubjectKind{auth.OIDCSubject, auth.CertSubject, auth.UnixSubject} {
		b := credential.Binding{Name: "ops", Kind: kind, Role: auth.Operator}
		if kind == auth.OIDCSubject {
			b.Issuer = hostileIssuer
		}
		_, _, err := s.PutBinding(t.Context(), b)
		require.ErrorIs(t, err, credential.ErrInvalid, kind)
		b.Subject = &patterns(t, "*")[0]
		mustBind(t, s, b)
	}
}
