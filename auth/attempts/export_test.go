package attempts

import "crypto/sha256"

// Sizes returns how many addresses are counted and limited.
func (l *Limiter) Sizes() (counted, limited int) {
	return len(l.counted.entries), len(l.limited.entries)
}

// Size returns how many tokens are remembered.
func (v *Verifier) Size() int { return len(v.young) + len(v.old) }

// Knows reports whether a token is remembered.
func (v *Verifier) Knows(token string) bool { return v.isKnown(sha256.Sum256([]byte(token))) }
