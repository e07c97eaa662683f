package shim

import (
	"crypto/hmac"
	"crypto/sha256"
)

// DeriveKey returns the key with which both ends of a session to one container
// authenticate. The key is derived, not stored: a restarted server computes it
// from its secret and the container's ID.
func DeriveKey(secret []byte, containerID string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("hostler session " + containerID))
	return mac.Sum(nil)
}
