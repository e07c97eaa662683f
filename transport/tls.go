package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/auth"
)

const (
	// pollInterval is the time between two looks at the files. They are read: times
	// of modification are the same for two changes within a tick of the clock, and
	// go backwards when a link is set to an older file.
	pollInterval = time.Second
	// expiryNotice is how long before its end a server's certificate is a problem.
	expiryNotice = 7 * 24 * time.Hour
)

// TLS serves with the certificate of files, and follows them.
type TLS struct {
	log  *slog.Logger
	now  func() time.Time // for certificates of clients
	used atomic.Pointer[material]

	// mu guards what follows. It is held while the files are read.
	mu          sync.Mutex
	pair        followed[*tls.Certificate]
	authorities followed[*x509.CertPool]

	// requestsMu guards requests.
	requestsMu sync.Mutex
	requests   map[*request]struct{} // in progress, of clients with a certificate
}

// material is what handshakes and requests use. It does not change.
type material struct {
	config  *tls.Config
	clients *x509.CertPool // nil: certificates of clients are not asked for
}

// Load reads the files. Files that cannot be used are an error only here.
func Load(files Files, log *slog.Logger) (*TLS, error) {
	if err := files.Check(); err != nil {
		return nil, err
	}
	t := &TLS{
		log:      log,
		now:      time.Now,
		pair:     followed[*tls.Certificate]{what: "--tls-cert and --tls-key", paths: []string{files.Cert, files.Key}, parse: parsePair},
		requests: map[*request]struct{}{},
	}
	cert, _, err := t.pair.read()
	if err != nil {
		return nil, err
	}
	var clients *x509.CertPool
	if files.ClientCA != "" {
		t.authorities = followed[*x509.CertPool]{what: "--tls-client-ca", paths: []string{files.ClientCA}, parse: parseAuthorities}
		if clients, _, err = t.authorities.read(); err != nil {
			return nil, err
		}
	}
	t.used.Store(newMaterial(cert, clients))
	return t, nil
}

// newMaterial returns the configuration of handshakes: the versions and suites are
// those that Go recommends.
func newMaterial(cert *tls.Certificate, clients *x509.CertPool) *material {
	config := baseConfig()
	config.Certificates = []tls.Certificate{*cert}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, clients
	}
	return &material{config: config, clients: clients}
}

func baseConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

// Config returns the configuration of a listener. Each handshake uses the files as
// they were read last.
func (t *TLS) Config() *tls.Config {
	config := baseConfig()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.used.Load().config, nil }
	return config
}

// AsksForCertificates reports whether clients may authenticate with a certificate.
func (t *TLS) AsksForCertificates() bool { return t.used.Load().clients != nil }

// Run follows the files until ctx ends.
func (t *TLS) Run(ctx context.Context) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			t.Reload()
		}
	}
}

// Reload reads the files, and uses those that have changed. A certificate and a key
// that do not belong together, or a file that cannot be read, change nothing.
func (t *TLS) Reload() {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := t.used.Load()
	next := used
	if cert, isNew := look(t.log, &t.pair); isNew {
		next = newMaterial(cert, next.clients)
		t.log.Info("TLS certificate loaded", "expires", cert.Leaf.NotAfter.UTC())
	}
	if clients, isNew := look(t.log, &t.authorities); isNew {
		next = newMaterial(&next.config.Certificates[0], clients)
		t.log.Info("authorities of client certificates loaded")
	}
	if next != used {
		t.used.Store(next)
	}
	if next.clients != used.clients {
		t.endRevoked()
	}
}

// look returns the value of files that have changed. Files that cannot be used are
// logged at the second look, once: the first one may have been between two writes.
func look[T any](log *slog.Logger, f *followed[T]) (value T, isNew bool) {
	if len(f.paths) == 0 {
		return value, false
	}
	value, isNew, err := f.read()
	if err == nil && f.problem != "" && !f.logged {
		f.logged = true
		log.Error("TLS files not loaded; the earlier ones stay in use", "error", f.problem)
	}
	return value, isNew
}

// Problems returns what an operator has to repair: files that are not used, and a
// certificate that has expired or will soon.
func (t *TLS) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var problems []string
	for _, problem := range []string{t.pair.problem, t.authorities.problem} {
		if problem != "" {
			problems = append(problems, problem+"; the earlier files stay in use")
		}
	}
	end := t.used.Load().config.Certificates[0].Leaf.NotAfter
	if left := time.Until(end); left < expiryNotice {
		problems = append(problems, fmt.Sprintf("the certificate in use expires at %s", end.UTC().Format(time.RFC3339)))
	}
	return problems
}

// endRevoked ends the requests of clients whose certificates the authorities in use
// do not accept.
func (t *TLS) endRevoked() {
	t.requestsMu.Lock()
	requests := slices.Collect(maps.Keys(t.requests))
	t.requestsMu.Unlock() // verifications take time, and a request that ends does no harm
	for _, r := range requests {
		if err := r.peer.check(t.used.Load(), r.certificates, t.now()); err != nil {
			r.end(auth.ErrRevoked)
		}
	}
}
