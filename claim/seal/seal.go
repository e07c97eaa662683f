// Package seal encrypts the secret parameters of claims with a key that is not in
// the database.
//
// It promises that a sealed value is of use only with the key, and only as the value
// of the parameter and the claim that it was sealed for. Its errors never have a
// value or a key. The key is read at every use, so that it can be replaced while the
// server runs: what was sealed with the former one can then not be opened.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hostler/hostler/internal/regular"
	"github.com/hostler/hostler/workload"
)

// KeyFile is the name of the file of the key in the directory of credentials.
const KeyFile = workload.ParametersKey

const (
	keySize    = 32
	maxKeyFile = 1 << 10
	// version begins a sealed value, so that another form can follow.
	version = "v1."
)

var errOtherKey = errors.New("it cannot be decrypted: " + KeyFile + " was replaced since the claim, or the record is damaged")

// Keys has the key. It is safe for concurrent use.
type Keys struct{ dir string }

// New returns the key in a directory of credentials. Without a directory there is
// none.
func New(dir string) *Keys { return &Keys{dir: dir} }

// Seal encrypts the value of a parameter of a claim.
func (k *Keys) Seal(claim, name, value string) (string, error) {
	gcm, err := k.cipher()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, gcm.NonceSize())
	rand.Read(nonce) //nolint:errcheck // documented never to fail
	return version + base64.StdEncoding.EncodeToString(gcm.Seal(nonce, nonce, []byte(value), boundTo(claim, name))), nil
}

// Open returns the value that Seal encrypted.
func (k *Keys) Open(claim, name, sealed string) (string, error) {
	text, ok := strings.CutPrefix(sealed, version)
	data, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		return "", errOtherKey
	}
	gcm, err := k.cipher()
	if err != nil {
		return "", err
	}
	if len(data) < gcm.NonceSize() {
		return "", errOtherKey
	}
	value, err := gcm.Open(nil, data[:gcm.NonceSize()], data[gcm.NonceSize():], boundTo(claim, name))
	if err != nil {
		return "", errOtherKey
	}
	return string(value), nil
}

// boundTo returns what a sealed value is bound to. Neither part has a NUL.
func boundTo(claim, name string) []byte { return []byte(claim + "\x00" + name) }

func (k *Keys) cipher() (cipher.AEAD, error) {
	key, err := k.read()
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, errors.New(KeyFile + " is not a key")
	}
	return cipher.NewGCM(block)
}

// read returns the key. Other users of the machine must not be able to read it.
func (k *Keys) read() ([]byte, error) {
	if k.dir == "" {
		return nil, errors.New("the server has no key for secret parameters: start it with --credentials-dir DIR, " +
			"and make a key with `openssl rand -base64 32 > DIR/" + KeyFile + "`")
	}
	root, err := os.OpenRoot(k.dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of credentials: %w", err)
	}
	defer root.Close() //nolint:errcheck // it was only read
	info, err := root.Stat(KeyFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the server has no key for secret parameters: make one with `openssl rand -base64 32 > %s`, of mode 0600",
			filepath.Join(k.dir, KeyFile))
	}
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, with which other users can use it: run `chmod 600` on it", KeyFile, mode)
	}
	text, err := regular.Read(root.OpenFile, KeyFile, maxKeyFile)
	if err != nil {
		return nil, err
	}
	return parse(strings.TrimSpace(string(text)))
}

// parse reads a key in hexadecimal or base64. They differ in length.
func parse(text string) ([]byte, error) {
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != keySize {
		key, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s is not a key: it has %d bytes in base64 or hexadecimal, as `openssl rand -base64 %d` prints them", KeyFile, keySize, keySize)
	}
	return key, nil
}
