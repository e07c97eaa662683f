package claim

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Limits of what a request for a claim has.
const (
	MaxLabels     = 16
	MaxLabelValue = 128 // characters
	MinLifetime   = time.Second
	MaxLifetime   = 30 * 24 * time.Hour
)

// Hidden stands for the value of a secret parameter.
const Hidden = "•••"

var (
	labelName = regexp.MustCompile(`\A[a-z0-9][a-z0-9._/-]{0,62}\z`)
	requestID = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\z`)
)

// ErrNotConfigured is returned for a secret parameter without a key to encrypt it.
var ErrNotConfigured = errors.New("secret parameters are not configured")

// RequestError is returned for a request that has something that no claim can have.
// It never has a value of the request.
type RequestError struct {
	Field   string // such as parameters.region
	Message string // what is wrong, and what to do
}

func (e *RequestError) Error() string { return e.Field + ": " + e.Message }

// OtherParameterError is returned for a request that gives a parameter of the
// tenant's existing claim another value. It matches pool.ErrConflict.
type OtherParameterError struct{ Claim, Name string }

func (e *OtherParameterError) Error() string {
	return fmt.Sprintf("parameters.%s: claim %s of the tenant has another value: release it first, or omit the parameter", shown(e.Name), e.Claim)
}

// Is reports whether target is pool.ErrConflict.
func (e *OtherParameterError) Is(target error) bool { return target == pool.ErrConflict }

// Sealer encrypts the secret parameters of claims.
type Sealer interface {
	Seal(claim, name, value string) (string, error)
	// Open returns an error that has no value if the key is another one.
	Open(claim, name, sealed string) (string, error)
}

// shown returns a name of a request for an error.
func shown(name string) string {
	const limit = 64
	if len(name) > limit {
		name = name[:limit] + "…"
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || name == "" {
		return fmt.Sprintf("%q", name)
	}
	return name
}

// Check returns a *RequestError if no claim could have the request's labels, lifetime
// or environment.
func (r Request) Check() error {
	if r.ID != "" && !requestID.MatchString(r.ID) {
		return &RequestError{"request_id", "it has at most 128 letters, digits and . _ : -, beginning with a letter or digit"}
	}
	if err := CheckLabels(r.Labels); err != nil {
		return err
	}
	if r.ExpiresIn != 0 && (r.ExpiresIn < MinLifetime || r.ExpiresIn > MaxLifetime) {
		return &RequestError{"expires_in", fmt.Sprintf("%s is not between %s and %s", r.ExpiresIn, MinLifetime, MaxLifetime)}
	}
	if err := runtime.CheckEnvironment(r.Environment); err != nil {
		return &RequestError{"environment", strings.TrimPrefix(err.Error(), runtime.ErrBadEnvironment.Error()+": ")}
	}
	return nil
}

// CheckLabels returns an error of type *RequestError if no claim can have the
// labels.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return &RequestError{"labels", fmt.Sprintf("there are %d, more than %d", len(labels), MaxLabels)}
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := labels[name]
		switch {
		case !labelName.MatchString(name):
			return &RequestError{"labels." + shown(name), "the name has 1 to 63 lower-case letters, digits and . _ / -, beginning with a letter or digit"}
		case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) || utf8.RuneCountInString(value) > MaxLabelValue:
			return &RequestError{"labels." + name, fmt.Sprintf("the value has at most %d characters of text on one line", MaxLabelValue)}
		}
	}
	return nil
}

// terms are what a new claim gets of its request.
type terms struct {
	parameters map[string]string // with defaults; a secret one is Hidden
	sealed     map[string]string // the secret ones
	// refusal is why there can be no such claim. The tenant's existing claim is
	// returned nonetheless.
	refusal error
}

// termsOf checks the parameters of a request against the current workload.
func (s *Service) termsOf(id string, r Request, w *workload.Workload) terms {
	all, err := w.WithDefaults(r.Parameters)
	if invalid, ok := errors.AsType[*workload.ParameterError](err); ok {
		err = &RequestError{"parameters." + shown(invalid.Name), invalid.Message}
	}
	if err != nil {
		return terms{refusal: err}
	}
	t := terms{parameters: all, sealed: map[string]string{}}
	for name, value := range all {
		if !w.Parameters[name].Secret {
			continue
		}
		sealed, err := s.seal(id, name, value)
		if err != nil {
			return terms{refusal: &notConfiguredError{name, err}}
		}
		t.parameters[name], t.sealed[name] = Hidden, sealed
	}
	return t
}

func (s *Service) seal(id, name, value string) (string, error) {
	if s.Sealer == nil {
		return "", errors.New("the server has no key")
	}
	return s.Sealer.Seal(id, name, value)
}

// notConfiguredError is a secret parameter that cannot be encrypted.
type notConfiguredError struct {
	name  string
	cause error
}

func (e *notConfiguredError) Error() string {
	return fmt.Sprintf("parameters.%s is secret, and %v", shown(e.name), e.cause)
}

func (e *notConfiguredError) Unwrap() error { return ErrNotConfigured }

// isRefusal reports whether an error is about the request that it is for, and not
// about the claim.
func isRefusal(err error) bool {
	_, invalid := errors.AsType[*RequestError](err)
	return invalid || errors.Is(err, ErrNotConfigured)
}

// checkSame returns an error if a request gives a parameter of the existing claim
// another value. The labels and the lifetime of that are its own.
func (s *Service) checkSame(r Request, c Claim) error {
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		value, ok := c.Parameters[name]
		if sealed, isSecret := c.Sealed[name]; isSecret && s.Sealer != nil {
			var err error
			value, err = s.Sealer.Open(c.ID, name, sealed)
			ok = err == nil
		}
		if !ok || subtle.ConstantTimeCompare([]byte(value), []byte(r.Parameters[name])) != 1 {
			return &OtherParameterError{c.ID, name}
		}
	}
	return nil
}
