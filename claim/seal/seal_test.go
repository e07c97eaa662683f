package seal

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const value = "a token of a tenant"

func keysIn(t *testing.T, text string, mode os.FileMode) *Keys {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, KeyFile), []byte(text), mode))
	require.NoError(t, os.Chmod(filepath.Join(dir, KeyFile), mode))
	return New(dir)
}

func hexKey(b byte) string { return hex.EncodeToString([]byte(strings.Repeat(string(rune(b)), 32))) }

// A sealed value is opened only for its claim and its parameter, with its key.
func TestSeal(t *testing.T) {
	k := keysIn(t, hexKey('k')+"\n", 0o600)
	sealed, err := k.Seal("c", "token", value)
	require.NoError(t, err)
	require.NotContains(t, sealed, value)
	again, err := k.Seal("c", "token", value)
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "equal values must not be seen to be equal")
	got, err := k.Open("c", "token", sealed)
	require.NoError(t, err)
	require.Equal(t, value, got)

	refused := map[string]func() (string, error){
		"another claim":     func() (string, error) { return k.Open("d", "token", sealed) },
		"another parameter": func() (string, error) { return k.Open("c", "other", sealed) },
		"another key":       func() (string, error) { return keysIn(t, hexKey('o'), 0o600).Open("c", "token", sealed) },
		"cut":               func() (string, error) { return k.Open("c", "token", sealed[:12]) },
		"changed":           func() (string, error) { return k.Open("c", "token", "v1."+strings.Repeat("A", len(sealed)-3)) },
		"nothing":           func() (string, error) { return k.Open("c", "token", "") },
		"without version":   func() (string, error) { return k.Open("c", "token", strings.TrimPrefix(sealed, version)) },
	}
	for name, open := range refused {
		t.Run(name, func(t *testing.T) {
			got, err := open()
			require.ErrorContains(t, err, "cannot be decrypted")
			require.Empty(t, got)
		})
	}
}

// A key is 32 bytes in one of two forms, in a file that other users cannot read.
func TestKeyFile(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"hexadecimal":       {hexKey('k'), 0o600, ""},
		"base64":            {"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n", 0o640, ""},
		"too short":         {"c2hvcnQ=", 0o600, "is not a key"},
		"no text":           {"", 0o600, "is not a key"},
		"readable by all":   {hexKey('k'), 0o604, "chmod 600"},
		"larger than a key": {strings.Repeat("a", 5000), 0o600, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keysIn(t, c.text, c.mode).Seal("c", "n", value)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "c2hvcnQ")
		})
	}
	for _, k := range []*Keys{New(""), New(t.TempDir())} {
		_, err := k.Seal("c", "n", value)
		require.ErrorContains(t, err, "openssl rand -base64 32 >")
	}
}
