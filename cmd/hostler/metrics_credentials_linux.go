package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/attempts"
	"github.com/hostler/hostler/doctor"
)

// limited returns what limits and counts the failures of an Authenticator.
func (s *server) limited(inner auth.Authenticator) auth.Authenticator {
	s.attempts = attempts.New(inner, attempts.Options{OnFailure: s.metrics.newFailures()})
	return s.attempts
}

// newFailures returns what counts a request that is not authenticated.
func (m *metrics) newFailures() func(attempts.Reason) {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hostler_credential_failures_total",
		Help: "Requests that were not authenticated, by why: missing, invalid, limited (invalid, from an address that has sent too many), unavailable (not checked).",
	}, []string{"reason"})
	m.registry.MustRegister(failures)
	for _, reason := range attempts.Reasons() {
		failures.WithLabelValues(string(reason))
	}
	return func(r attempts.Reason) { failures.WithLabelValues(string(r)).Inc() }
}

// credentialFailures returns the credentials that were not accepted lately.
func (s *server) credentialFailures() doctor.CredentialFailures {
	if s.attempts == nil {
		return doctor.CredentialFailures{}
	}
	lately := s.attempts.Summary()
	failures := doctor.CredentialFailures{Failures: lately.Failures, Within: attempts.Recent}
	if lately.Limited.IsValid() {
		failures.Limited = lately.Limited.String()
	}
	return failures
}
