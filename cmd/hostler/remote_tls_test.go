package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// The environment names the authority of a server, and a certificate to show it.
func TestClientFilesOfTLS(t *testing.T) {
	shown := make(chan int, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- len(r.TLS.PeerCertificates)
		fmt.Fprint(w, `{"items":[]}`) //nolint:errcheck // the client sees it
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	cert, key := write("cert", "CERTIFICATE", pair.Certificate[0]), write("key", "PRIVATE KEY", private)

	for name, c := range map[string]struct {
		env   map[string]string
		certs int // -1: refused before anything is sent
	}{
		"an authority":            {map[string]string{"HOSTLER_CA_FILE": cert}, 0},
		"an authority and a pair": {map[string]string{"HOSTLER_CA_FILE": cert, "HOSTLER_CLIENT_CERT": cert, "HOSTLER_CLIENT_KEY": key}, 1},
		"only a certificate":      {map[string]string{"HOSTLER_CA_FILE": cert, "HOSTLER_CLIENT_CERT": cert}, -1},
		"no authority":            {map[string]string{"HOSTLER_CA_FILE": key}, -1},
		"no such file":            {map[string]string{"HOSTLER_CA_FILE": cert + "x"}, -1},
		"a key of nothing":        {map[string]string{"HOSTLER_CLIENT_CERT": key, "HOSTLER_CLIENT_KEY": key}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			plain, err := client.New(server.URL, "")
			require.NoError(t, err)
			secure, err := withTLS(plain, func(name string) string { return c.env[name] })
			if c.certs < 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			_, err = secure.Claims(t.Context(), client.ClaimFilter{})
			require.NoError(t, err)
			require.Equal(t, c.certs, <-shown)
		})
	}
}
