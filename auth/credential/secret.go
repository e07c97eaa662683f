package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

const (
	keyPrefix   = "hostler_"
	tokenPrefix = "hostlertok_"

	secretBytes  = 32
	secretDigits = 43 // of secretBytes in base 62
	sumDigits    = 6  // of a CRC-32 in base 62

	// shownDigits is how much of a key is shown to recognise it.
	shownDigits = 6
)

// newSecret returns a key: a prefix, random digits, and their checksum. By the
// prefix and the checksum scanners find keys in files.
func newSecret() string {
	random := make([]byte, secretBytes)
	rand.Read(random) //nolint:errcheck // it never fails
	digits := base62(new(big.Int).SetBytes(random), secretDigits)
	return keyPrefix + digits + checksum(digits)
}

// isKeyShaped reports whether a text has the form and the checksum of a key.
func isKeyShaped(text string) bool {
	rest, ok := strings.CutPrefix(text, keyPrefix)
	return ok && len(rest) == secretDigits+sumDigits && rest[secretDigits:] == checksum(rest[:secretDigits])
}

func checksum(digits string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(digits)))), sumDigits)
}

// base62 returns a number with leading zeros.
func base62(n *big.Int, digits int) string {
	const zeros = "0000000000000000000000000000000000000000000"
	text := n.Text(62)
	return zeros[:digits-len(text)] + text
}

// hash is the SHA-256 of a secret.
type hash [sha256.Size]byte

func hashOf(secret string) hash { return sha256.Sum256([]byte(secret)) }

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// parseHash reads what String returned.
func parseHash(text string) (h hash, err error) {
	if len(text) != hex.EncodedLen(len(h)) {
		return h, fmt.Errorf("the hash has %d characters", len(text))
	}
	_, err = hex.Decode(h[:], []byte(text))
	return h, err
}
