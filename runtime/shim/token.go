package shim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// Token is the password of the sessions to one container. It is derived, not
// stored: a server that starts again has it from its secret and the id.
func Token(secret []byte, containerID string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("hostler session " + containerID))
	return hex.EncodeToString(mac.Sum(nil))
}

// TokenHash is what the container is told of a token: enough to know it, too
// little to use it.
func TokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
