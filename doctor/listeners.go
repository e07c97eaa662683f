package doctor

import (
	"context"
	"fmt"
	"time"
)

// CredentialFailures are credentials that were not accepted.
type CredentialFailures struct {
	Failures int
	Within   time.Duration
	Limited  string // the last address that has sent too many; empty: none
}

// manyFailures is how many failures within minutes are more than a typing error.
const manyFailures = 50

// listeners reports files of TLS that are not used, or not for long.
func (v *examination) listeners(context.Context) error {
	if v.Listeners == nil {
		return nil
	}
	for _, problem := range v.Listeners() {
		v.addFinding(Finding{
			Severity: Error, Message: problem,
			Hint: "replace the files: they are read each second, and need no restart; a certificate and its key belong together",
		})
	}
	return nil
}

// credentials reports many failed credentials, and addresses that are limited.
func (v *examination) credentials(context.Context) error {
	if v.Credentials == nil {
		return nil
	}
	failed := v.Credentials()
	if failed.Failures < manyFailures && failed.Limited == "" {
		return nil
	}
	message := fmt.Sprintf("%d credentials were not accepted within %s", failed.Failures, failed.Within)
	if failed.Limited != "" {
		message += "; the last address with too many is " + failed.Limited
	}
	v.addFinding(Finding{
		Severity: Warning, Message: message,
		Hint: "find the program that has a key which was revoked or has expired; if there is none, the keys are being guessed: limit who reaches the server",
	})
	return nil
}
