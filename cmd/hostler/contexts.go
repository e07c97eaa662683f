package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/internal/regular"
)

// contextHelp describes contexts, in the help of the commands that change them.
const contextHelp = `A context is a server with the credential for it. The file of contexts is
$HOSTLER_CLIENT_CONFIG, else config.yaml in the directory hostler of the user's
configuration directory (~/.config); it has mode 0600 and no secrets, only the names
of their files.

The first of these decides on the server and the credential:
  1. --server, with the credential of flags, and of the environment unless
     $HOSTLER_SERVER is another server
  2. --context, without the credential of the environment
  3. $HOSTLER_SERVER, with the credential of flags and environment
  4. $HOSTLER_CONTEXT
  5. the context of ` + "`hostler context use`" + `
  6. ` + defaultServer + `
A context's credential is sent to the context's server only. With 4 and 5, flags and
environment replace single settings of the context.`

// contextName matches the name of a context. It is a part of the name of a file.
var contextName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// clientContext is a server and the credential for it.
type clientContext struct {
	Server     string       `yaml:"server" json:"server"`
	KeyFile    string       `yaml:"api_key_file,omitempty" json:"api_key_file,omitempty"`
	CAFile     string       `yaml:"ca_file,omitempty" json:"ca_file,omitempty"`
	ClientCert string       `yaml:"client_cert,omitempty" json:"client_cert,omitempty"`
	ClientKey  string       `yaml:"client_key,omitempty" json:"client_key,omitempty"`
	Login      *loginConfig `yaml:"login,omitempty" json:"login,omitempty"`
}

// loginConfig is where the tokens of a context come from.
type loginConfig struct {
	Issuer   string   `yaml:"issuer" json:"issuer"`
	ClientID string   `yaml:"client_id" json:"client_id"`
	Audience string   `yaml:"audience,omitempty" json:"audience,omitempty"`
	Scopes   []string `yaml:"scopes,omitempty" json:"scopes,omitempty"`
	CAFile   string   `yaml:"ca_file,omitempty" json:"ca_file,omitempty"`
}

// contextFile is the file of contexts.
type contextFile struct {
	Current  string                   `yaml:"current,omitempty"`
	Contexts map[string]clientContext `yaml:"contexts,omitempty"`

	path string
}

// maxContextFile bounds the file of contexts, and those that it names.
const maxContextFile = 1 << 20

// contextPath returns the path of the file of contexts.
func contextPath() (string, error) {
	if path := os.Getenv("HOSTLER_CLIENT_CONFIG"); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the file of contexts: %w; name it in HOSTLER_CLIENT_CONFIG", err)
	}
	return filepath.Join(dir, "hostler", "config.yaml"), nil
}

// readContexts reads the file of contexts. One that does not exist has none.
func readContexts() (*contextFile, error) {
	path, err := contextPath()
	if err != nil {
		return nil, err
	}
	f := &contextFile{path: path, Contexts: map[string]clientContext{}}
	text, err := regular.Read(os.OpenFile, path, maxContextFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the contexts of %s: %w", path, err)
	}
	if f.Contexts == nil {
		f.Contexts = map[string]clientContext{}
	}
	for name := range f.Contexts {
		if !contextName.MatchString(name) {
			return nil, fmt.Errorf("read the contexts of %s: %q is no name of a context", path, name)
		}
	}
	return f, nil
}

// get returns a context; with an empty name the current one, unless there is none.
func (f *contextFile) get(name string) (string, clientContext, bool, error) {
	if name == "" {
		name = f.Current
	}
	if name == "" {
		return "", clientContext{}, false, nil
	}
	c, ok := f.Contexts[name]
	if !ok {
		return "", c, false, &exitError{exitNotFound, fmt.Errorf("there is no context %q in %s; `hostler context list` shows them", name, f.path)}
	}
	return name, c, true, nil
}

func (f *contextFile) names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// change changes the file of contexts: one process at a time reads and replaces it.
func changeContexts(change func(*contextFile) error) error {
	path, err := contextPath()
	if err != nil {
		return err
	}
	unlock, err := lockFile(path)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := readContexts()
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(f), e.Close()); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return replacePrivate(path, text.Bytes())
}

// replacePrivate replaces a file that only its owner may read, at once: a reader, and
// a process that is killed, sees and leaves the old or the new one.
func replacePrivate(path string, text []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
