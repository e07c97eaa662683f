package request

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/hostler/hostler/hooks"
)

// EnvPrefix is the prefix of the variables of the server's environment that have
// secrets. A variable with EnvPrefix and AllowSuffix limits the secret of the
// name between them.
const (
	EnvPrefix   = "HOSTLER_SECRET_"
	AllowSuffix = "_ALLOW"
)

// allowFile is the suffix of the file that limits the secret in a file.
const allowFile = ".allow"

// maxSecretBytes bounds the file of a secret.
const maxSecretBytes = 64 << 10

// Secrets reads the server's secrets. It reads them at every use, so that they
// can be replaced while the server runs. It is safe for concurrent use.
type Secrets struct {
	dir      string
	redactor *Redactor
}

// NewSecrets returns the secrets in the files of dir and in the environment of
// this process. Each secret that it returns is added to r first. Without dir
// there are no files.
func NewSecrets(dir string, r *Redactor) *Secrets { return &Secrets{dir: dir, redactor: r} }

// Secret is the value of a declared secret.
type Secret struct {
	Value string
	limit string // WORKLOAD@HOST,…
}

// Read returns the value of a secret, without surrounding white space. Its errors
// have no part of the value.
func (s *Secrets) Read(from hooks.Secret) (Secret, error) {
	var secret Secret
	var err error
	switch {
	case from.Env != "":
		secret, err = readEnv(from.Env)
	case from.File != "":
		secret, err = s.readFiles(from.File)
	default:
		err = errors.New("it has neither env nor file")
	}
	secret.Value = strings.TrimSpace(secret.Value)
	if err == nil && len(secret.Value) < MinSecret {
		err = fmt.Errorf("it is shorter than %d characters", MinSecret)
	}
	if err != nil {
		return Secret{}, err
	}
	s.redactor.Add(secret.Value)
	return secret, nil
}

func readEnv(name string) (Secret, error) {
	if !strings.HasPrefix(name, EnvPrefix) || strings.HasSuffix(name, AllowSuffix) {
		return Secret{}, fmt.Errorf("%s is not the name of a secret: %sNAME", name, EnvPrefix)
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return Secret{}, fmt.Errorf("the server's environment has no %s", name)
	}
	return Secret{Value: value, limit: os.Getenv(name + AllowSuffix)}, nil
}

func (s *Secrets) readFiles(name string) (Secret, error) {
	if s.dir == "" {
		return Secret{}, errors.New("the server has no directory of credentials")
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return Secret{}, err
	}
	defer root.Close()
	value, err := readFile(root, name)
	if err != nil {
		return Secret{}, err
	}
	limit, err := readFile(root, name+allowFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Secret{}, err
	}
	return Secret{Value: value, limit: limit}, nil
}

func readFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err == nil && len(data) > maxSecretBytes {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxSecretBytes)
	}
	return string(data), err
}

// Permits reports whether requests of a workload to a host may have the secret.
// The limit is a list of WORKLOAD@HOST with * and ?, separated by commas or
// white space; without one everything is permitted. An invalid entry permits
// nothing.
func (s Secret) Permits(workload, host string) bool {
	entries := strings.FieldsFunc(s.limit, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' })
	for _, entry := range entries {
		w, h, ok := strings.Cut(entry, "@")
		if ok && matches(w, workload) && matches(strings.ToLower(h), hostName(host)) {
			return true
		}
	}
	return s.limit == ""
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// hostName returns a host in the form in which hosts are compared.
func hostName(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }
