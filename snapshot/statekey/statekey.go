// Package statekey has the keys that tenants' state is encrypted with.
//
// It promises that its errors have no part of a key, that a key which other
// users of the machine can read is refused, and that each pack object has a key
// of its own, derived from the server's. It leaves the nonces to its user: a
// nonce must not be used twice for one pack. The file is read once: another
// content of it needs another Load.
package statekey

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Option is the option of the server that names the file, for errors.
const Option = "--state-key-file"

// ErrUnknownKey indicates state that is encrypted with a key which the server
// does not have.
var ErrUnknownKey = errors.New("the state is encrypted with a key that the server does not have")

// errNotEncrypted is a caller's mistake.
var errNotEncrypted = errors.New("state that is not encrypted has no key")

// ID identifies a key, and is not secret. Zero is that of no key: the state is
// not encrypted.
type ID [8]byte

// String returns the ID in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// keySize is the length of a key, and of those derived from it.
const keySize = 32

// The purposes of what is derived from a key. They are part of the format of
// the stored state.
const (
	infoID   = "hostler state key id"
	infoPack = "hostler state pack"
)

// Keys are the keys of a server. The first one encrypts, all decrypt. Nil has
// none. They do not change, and are safe for concurrent use.
type Keys struct {
	current ID
	keys    map[ID][]byte
}

// Current returns the ID of the key that encrypts, zero for none.
func (k *Keys) Current() ID {
	if k == nil {
		return ID{}
	}
	return k.current
}

// Pack returns the cipher of one pack object: AES-256-GCM with the key of that
// pack. It returns ErrUnknownKey for an ID whose key the server does not have.
func (k *Keys) Pack(id ID, pack [16]byte) (cipher.AEAD, error) {
	if id == (ID{}) {
		return nil, errNotEncrypted
	}
	var key []byte
	if k != nil {
		key = k.keys[id]
	}
	if key == nil {
		return nil, fmt.Errorf("%w: %s is not in the file of %s", ErrUnknownKey, id, Option)
	}
	derived, err := hkdf.Key(sha256.New, key, pack[:], infoPack, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Format implements fmt.Formatter. No verb prints a key.
func (k *Keys) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "state keys, of which "+k.Current().String()+" encrypts")
}

// idOf returns the ID of a key.
func idOf(key []byte) (ID, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, infoID, len(ID{}))
	if err != nil {
		return ID{}, err
	}
	return ID(derived), nil
}
