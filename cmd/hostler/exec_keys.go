package main

import (
	"bytes"
	"fmt"
	"strings"
)

// parseKeys reads keys such as ctrl-p,ctrl-q. An empty text is no keys.
func parseKeys(text string) ([]byte, error) {
	var keys []byte
	if text == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		letter, isControl := strings.CutPrefix(strings.ToLower(name), "ctrl-")
		switch {
		case isControl && len(letter) == 1 && letter[0] >= '@' && letter[0] <= '_':
			keys = append(keys, letter[0]&0x1f)
		case isControl && len(letter) == 1 && letter[0] >= 'a' && letter[0] <= 'z':
			keys = append(keys, letter[0]&0x1f)
		case !isControl && len(name) == 1:
			keys = append(keys, name[0])
		default:
			return nil, fmt.Errorf("%q is neither a character nor ctrl- and a letter", name)
		}
	}
	return keys, nil
}

// detachKeys finds a sequence of keys in input, which arrives in parts.
type detachKeys struct {
	sequence []byte
	matched  int // how many of them were the last input
}

// filter returns the input to pass on, and whether the sequence was found. What may
// be its beginning is held until it is decided.
func (k *detachKeys) filter(input []byte) (text []byte, found bool) {
	if len(k.sequence) == 0 {
		return input, false
	}
	for _, b := range input {
		for k.matched > 0 && b != k.sequence[k.matched] {
			text = k.shift(text)
		}
		if b != k.sequence[k.matched] {
			text = append(text, b)
			continue
		}
		if k.matched++; k.matched == len(k.sequence) {
			return text, true
		}
	}
	return text, false
}

// shift gives up the longest beginning that was matched for a shorter one, and
// appends what is not part of that.
func (k *detachKeys) shift(text []byte) []byte {
	for n := k.matched - 1; ; n-- {
		if bytes.HasSuffix(k.sequence[:k.matched], k.sequence[:n]) {
			text = append(text, k.sequence[:k.matched-n]...)
			k.matched = n
			return text
		}
	}
}
