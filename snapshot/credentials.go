package snapshot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hostler/hostler/internal/regular"
	"github.com/hostler/hostler/workload"
)

// ErrCredentials indicates that a sink's credentials are unavailable.
var ErrCredentials = errors.New("sink credentials unavailable")

// maxCredentialsSize bounds a file of credentials.
const maxCredentialsSize = 64 << 10

// credentials returns the credentials that a sink refers to, "" for none. The
// author of a workload selects them by name and cannot choose their location:
// files are below the directory that the operator configured, and variables
// have a prefix that package workload requires.
func (p PathPolicy) credentials(c workload.Credentials) (string, error) {
	switch {
	case c.Env != "":
		text := os.Getenv(c.Env)
		if text == "" {
			return "", fmt.Errorf("%w: the server's environment has no %s", ErrCredentials, c.Env)
		}
		return text, nil
	case c.File != "":
		text, err := p.readCredentials(c.File)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrCredentials, err)
		}
		return text, nil
	}
	return "", nil
}

func (p PathPolicy) readCredentials(name string) (string, error) {
	if p.Credentials == "" {
		return "", errors.New("the server has no credentials directory")
	}
	root, err := os.OpenRoot(p.Credentials)
	if err != nil {
		return "", err
	}
	defer root.Close()
	data, err := regular.Read(root.OpenFile, name, maxCredentialsSize)
	if err == nil && strings.TrimSpace(string(data)) == "" {
		err = fmt.Errorf("%s is empty", name)
	}
	return string(data), err
}
