package doctor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/runtime"
)

// noEngine has no containers.
type noEngine struct{}

func (noEngine) List(context.Context) ([]runtime.Status, error) { return nil, nil }
func (noEngine) Status(context.Context, string) (runtime.Status, error) {
	return runtime.Status{}, runtime.ErrNotFound
}

// Files of TLS that are not used are an error, and many failed credentials a warning.
func TestListenersAndCredentials(t *testing.T) {
	few := doctor.CredentialFailures{Failures: 49, Within: 5 * time.Minute}
	many := doctor.CredentialFailures{Failures: 50, Within: 5 * time.Minute}
	limited := doctor.CredentialFailures{Failures: 10, Within: 5 * time.Minute, Limited: "192.0.2.1/32"}
	for name, c := range map[string]struct {
		problems []string
		failed   doctor.CredentialFailures
		want     []doctor.Finding // without hints
	}{
		"nothing":   {nil, doctor.CredentialFailures{}, nil},
		"a few":     {nil, few, nil},
		"many":      {nil, many, []doctor.Finding{{Severity: doctor.Warning, Check: "failed_credentials", Message: "50 credentials were not accepted within 5m0s"}}},
		"limited":   {nil, limited, []doctor.Finding{{Severity: doctor.Warning, Check: "failed_credentials", Message: "10 credentials were not accepted within 5m0s; the last address with too many is 192.0.2.1/32"}}},
		"the files": {[]string{"the key is another's"}, few, []doctor.Finding{{Severity: doctor.Error, Check: "tls_files", Message: "the key is another's"}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doctor.Doctor{
				Engine:      noEngine{},
				Database:    func(context.Context) (doctor.Database, error) { return doctor.Database{}, errors.New("not here") },
				Disk:        func() (doctor.Disk, error) { return doctor.Disk{Free: freeSpace}, nil },
				Listeners:   func() []string { return c.problems },
				Credentials: func() doctor.CredentialFailures { return c.failed },
			}
			var found []doctor.Finding
			for _, f := range d.Examine(t.Context()).Findings {
				if f.Check == "database" { // without it, no records are examined
					continue
				}
				require.NotEmpty(t, f.Hint)
				f.Hint = ""
				found = append(found, f)
			}
			require.Equal(t, c.want, found)
		})
	}
}
