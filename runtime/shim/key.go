package shim

import (
	"crypto/hmac"
	"crypto/sha256"
)

// DeriveKey is what the two ends of the sessions to one container prove themselves
// by. It is derived, not stored: a server that starts again has it from its
// secret and the id.
func DeriveKey(secret []byte, containerID string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("hostler session " + containerID))
	return mac.Sum(nil)
}
