package statekey

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hostler/hostler/internal/regular"
)

// maxFileSize bounds the file of keys.
const maxFileSize = 64 << 10

// howToMake is what an operator does without a key.
const howToMake = "make one with `openssl rand -base64 32`"

// Load reads a file of keys: one per line, 32 bytes in base64. Empty lines and
// those that begin with # are comments. The file may be behind a link, as those
// of a Secret are; other users of the machine must not have access to it.
func Load(path string) (*Keys, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the file of state keys: %w", err)
	}
	keys, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the state keys of %s: %w", path, err)
	}
	return keys, nil
}

// readFile reads the file. The mode is that of the file which is read.
func readFile(path string) (string, error) {
	f, err := regular.Open(os.OpenFile, path)
	if err != nil {
		return "", err
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return "", fmt.Errorf("%s has mode %04o, with which other users can use it: run `chmod 600` on it", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(text) > maxFileSize {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFileSize)
	}
	return string(text), err
}

// parse reads the lines of a file. Its errors never quote one, because it may
// be a key.
func parse(text string) (*Keys, error) {
	k := &Keys{keys: map[ID][]byte{}}
	at := map[ID]int{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(key) != keySize {
			return nil, fmt.Errorf("line %d is not a key of %d bytes in base64: %s", n, keySize, howToMake)
		}
		id, err := idOf(key)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if first := at[id]; first != 0 {
			return nil, fmt.Errorf("line %d has the same key as line %d: remove one of them", n, first)
		}
		if len(k.keys) == 0 {
			k.current = id
		}
		k.keys[id], at[id] = key, n
	}
	if len(k.keys) == 0 {
		return nil, errors.New("the file has no key: " + howToMake)
	}
	return k, nil
}
