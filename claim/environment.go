package claim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/hostler/hostler/runtime"
)

// ErrOtherEnvironment is returned for a request with an environment when the
// tenant's claim has another one, or none.
var ErrOtherEnvironment = errors.New("the tenant's claim has another environment")

// digest returns what is on record of a claim's environment, or "" if it has
// none: whether a later request has the same one can be found out, and with the
// key of the installation only. It differs between claims.
func (s *Service) digest(claimID string, environment map[string]string) (string, error) {
	if len(environment) == 0 {
		return "", nil
	}
	text, err := json.Marshal(environment) // in order of the names
	if err != nil {
		return "", fmt.Errorf("encode an environment: %w", err)
	}
	mac := hmac.New(sha256.New, s.EnvironmentKey)
	mac.Write([]byte("hostler environment " + claimID + "\n"))
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// checkEnvironment returns ErrOtherEnvironment unless the claim has the
// environment of the request. A request without one accepts any.
func (s *Service) checkEnvironment(c Claim, r Request) error {
	digest, err := s.digest(c.ID, r.Environment)
	if err != nil || digest == "" || hmac.Equal([]byte(digest), []byte(c.EnvironmentDigest)) {
		return err
	}
	return fmt.Errorf("%w: claim %s; release it first, or claim without an environment", ErrOtherEnvironment, c.ID)
}

// joined returns the result of another caller's call for a request. It reports
// whether the request is to be tried again: what failed may be due to the
// environment of the other one.
func (s *Service) joined(p *progress, r Request, c Claim, err error) (Claim, bool, error) {
	if err != nil {
		return c, !maps.Equal(p.environment, r.Environment), err
	}
	if err := s.checkEnvironment(c, r); err != nil {
		return Claim{}, false, err
	}
	return c, false, nil
}

// needsEnvironment reports whether the main process is restarted with the
// environment of the claim, whatever the plan is.
func (a *acquisition) needsEnvironment() bool { return len(a.request.Environment) > 0 }

// isUnsupported reports whether a restart has failed without any effect, because
// an older server created the tenant's own container. It stays as it is: a
// claim without an environment gets it.
func (a *acquisition) isUnsupported(err error) bool {
	return a.claim.Source == Affinity && errors.Is(err, runtime.ErrUnsupported)
}
