package statekey

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys of bytes from 0 and from 32 on, as `openssl rand -base64 32` prints them.
var (
	first  = line(0)
	second = line(32)
)

func line(from byte) string {
	key := make([]byte, keySize)
	for i := range key {
		key[i] = from + byte(i)
	}
	return base64.StdEncoding.EncodeToString(key)
}

// write returns a file with such text and mode.
func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

func load(t *testing.T, lines ...string) *Keys {
	t.Helper()
	k, err := Load(write(t, strings.Join(lines, "\n"), 0o600))
	require.NoError(t, err)
	return k
}

// The derivation is part of the stored format: what one version has encrypted,
// the next one decrypts. The values were computed with another implementation of
// HKDF and AES-GCM, Python's.
func TestVectors(t *testing.T) {
	k := load(t, first, second)
	require.Equal(t, "9df756df5c8337c2", k.Current().String())
	require.Equal(t, "8c1d489a185a9ef2", load(t, second).Current().String())
	pack := [16]byte([]byte("0123456789abcdef"))
	aead, err := k.Pack(k.Current(), pack)
	require.NoError(t, err)
	sealed := aead.Seal(nil, make([]byte, aead.NonceSize()), []byte("text of a tenant"), []byte("more"))
	require.Equal(t, "a3c96dd33c3efedd8cb4979ea6ebf6d7f0c2229c9c658a663e4dd0793f065b4c", hex.EncodeToString(sealed))
}

// The first key encrypts, all decrypt, whatever their order. Each pack has
// another key.
func TestPack(t *testing.T) {
	before, rotated := load(t, first), load(t, second, first)
	require.NotEqual(t, before.Current(), rotated.Current())
	seal := func(k *Keys, pack [16]byte) []byte {
		aead, err := k.Pack(before.Current(), pack)
		require.NoError(t, err)
		return aead.Seal(nil, make([]byte, aead.NonceSize()), []byte("text"), nil)
	}
	require.Equal(t, seal(before, [16]byte{1}), seal(rotated, [16]byte{1}))
	require.NotEqual(t, seal(before, [16]byte{1}), seal(before, [16]byte{2}))

	other, err := rotated.Pack(rotated.Current(), [16]byte{1})
	require.NoError(t, err)
	_, err = other.Open(nil, make([]byte, other.NonceSize()), seal(before, [16]byte{1}), nil)
	require.Error(t, err, "another key")
	require.Equal(t, 12, other.NonceSize())
	require.Equal(t, 16, other.Overhead())
}

// A key that the server does not have is named, with the option that has the
// keys. State without encryption has no key.
func TestUnknownKey(t *testing.T) {
	var none *Keys
	require.Equal(t, ID{}, none.Current())
	id := load(t, first).Current()
	for _, k := range []*Keys{none, load(t, second)} {
		_, err := k.Pack(id, [16]byte{})
		require.ErrorIs(t, err, ErrUnknownKey)
		require.ErrorContains(t, err, id.String())
		require.ErrorContains(t, err, "--state-key-file")
		_, err = k.Pack(ID{}, [16]byte{})
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrUnknownKey)
	}
}

// Packs are opened by many at once.
func TestPackConcurrently(t *testing.T) {
	k := load(t, first, second)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				if _, err := k.Pack(k.Current(), [16]byte{byte(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// No verb prints a key.
func TestKeysAreNotPrinted(t *testing.T) {
	k := load(t, first)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		require.Equal(t, "state keys, of which "+k.Current().String()+" encrypts", fmt.Sprintf(verb, k), verb)
	}
}

// A file has 32 bytes in base64 a line, and other users cannot use it. Errors
// name the line and what to do, and have no part of a key.
func TestLoad(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"one key":               {first + "\n", 0o600, ""},
		"comments":              {"# first\n\n  " + first + "  \r\n#" + second + "\n" + second, 0o600, ""},
		"readable by the group": {first, 0o440, ""},
		"readable by others":    {first, 0o604, "chmod 600"},
		"writable by others":    {first, 0o602, "chmod 600"},
		"empty":                 {"", 0o600, "no key: make one with `openssl rand -base64 32`"},
		"comments only":         {"# " + first + "\n", 0o600, "no key: make one"},
		"too short":             {first + "\n" + first[:40], 0o600, "line 2 is not a key"},
		"too long":              {first[:43] + "AAAA=", 0o600, "line 1 is not a key"},
		"no base64":             {"#\n" + strings.Repeat("-", 44), 0o600, "line 2 is not a key of 32 bytes in base64: make one with `openssl rand -base64 32`"},
		"with a name":           {"name: " + first, 0o600, "line 1 is not a key"},
		"other last bits":       {first[:42] + "9=", 0o600, "line 1 is not a key"},
		"hexadecimal":           {strings.Repeat("ab", 32), 0o600, "line 1 is not a key"},
		"a key twice":           {first + "\n" + second + "\n\n" + first, 0o600, "line 4 has the same key as line 1"},
		"too large":             {strings.Repeat("#", maxFileSize) + "\n" + first, 0o600, "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.text, c.mode)
			k, err := Load(path)
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, load(t, first).Current(), k.Current())
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), first[:8])
			require.Nil(t, k)
		})
	}
}

// A key behind a link is read, as that of a Secret is, with the mode of the file
// itself. A directory, a pipe, and a file that does not exist are errors.
func TestLoadFiles(t *testing.T) {
	path := write(t, first, 0o600)
	dir := filepath.Dir(path)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("keys", link))
	k, err := Load(link)
	require.NoError(t, err)
	require.Equal(t, load(t, first).Current(), k.Current())
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = Load(link)
	require.ErrorContains(t, err, "chmod 600")
	_, err = Load(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(dir)
	require.ErrorContains(t, err, "not a regular file")
}

// Whatever the text, the result is an error or keys of 32 bytes, of which the
// current one is one. Comments and blank lines change nothing.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", first, first + "\n" + second, "# c\n\n" + first + "\r\n", first + first, "\xff\n" + first, strings.ReplaceAll(first, "A", "\n")} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parse(text)
		if err != nil {
			require.Nil(t, k)
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); len(line) > 40 {
					require.NotContains(t, err.Error(), line)
				}
			}
			return
		}
		require.NotEqual(t, ID{}, k.Current())
		require.NotNil(t, k.keys[k.Current()])
		for id, key := range k.keys {
			require.Len(t, key, keySize)
			_, err := k.Pack(id, [16]byte{})
			require.NoError(t, err)
		}
		again, err := parse("# comment\n\n" + text + "\n\n#")
		require.NoError(t, err)
		require.Equal(t, k.Current(), again.Current())
		require.Equal(t, len(k.keys), len(again.keys))
		require.True(t, bytes.Equal(k.keys[k.Current()], again.keys[k.Current()]))
	})
}
