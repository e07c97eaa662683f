package request

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/regular"
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
	Value     string
	limit     string // WORKLOAD@HOST,…
	isLimited bool   // also if limit is empty
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
	limit, isLimited := os.LookupEnv(name + AllowSuffix)
	return Secret{Value: value, limit: limit, isLimited: isLimited}, nil
}

// readFiles reads a secret and then its limit: who replaces a secret can limit
// it first. Without the limit's file nothing may have the secret, because the
// directory also has the credentials of sinks.
func (s *Secrets) readFiles(name string) (Secret, error) {
	if s.dir == "" {
		return Secret{}, errors.New("the server has no directory of credentials")
	}
	if strings.HasSuffix(name, allowFile) {
		return Secret{}, fmt.Errorf("%s is the limit of a secret", name)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return Secret{}, err
	}
	defer root.Close()
	value, err := regular.Read(root.OpenFile, name, maxSecretBytes)
	if err != nil {
		return Secret{}, err
	}
	limit, err := regular.Read(root.OpenFile, name+allowFile, maxSecretBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Secret{}, err
	}
	return Secret{Value: string(value), limit: string(limit), isLimited: true}, nil
}

// Permits reports whether requests of a workload to a host may have the secret.
// A limit is a list of WORKLOAD@HOST with *, separated by commas or white space.
// An empty one, and an invalid entry, permits nothing.
func (s Secret) Permits(workload, host string) bool {
	entries := strings.FieldsFunc(s.limit, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	for _, entry := range entries {
		w, h, ok := strings.Cut(entry, "@")
		h = strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(h), "["), "]") // of IPv6
		if ok && !strings.ContainsAny(w+h, `?[]\`) && matches(w, workload) && matches(h, hostName(host)) {
			return true
		}
	}
	return s.limit == "" && !s.isLimited
}

// matches reports whether a name matches a pattern, in which * stands for any
// characters.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	name, ok := strings.CutPrefix(name, parts[0])
	if last == 0 {
		return ok && name == ""
	}
	for _, part := range parts[1:last] {
		_, rest, found := strings.Cut(name, part)
		name, ok = rest, ok && found
	}
	return ok && strings.HasSuffix(name, parts[last])
}

// hostName returns a host in the form in which hosts are compared.
func hostName(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }
