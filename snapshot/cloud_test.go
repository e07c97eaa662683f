package snapshot_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/gcstest"
	"github.com/hostler/hostler/internal/s3test"
	"github.com/hostler/hostler/snapshot"
	clouds "github.com/hostler/hostler/snapshot/cloud"
)

// testProviders are the providers, each with a test server. Those of S3 and
// Google Cloud Storage are third-party; Azure's is azureServer.
var testProviders = map[string]func(t testing.TB) *cloud{"s3": s3Cloud, "gcs": gcsCloud, "azure": azureCloud}

// cloud is a provider, opened as a workload file opens it.
type cloud struct {
	testing.TB
	way    *proxy
	sink   string // with %s for the name of a bucket
	sinks  *snapshot.Sinks
	denied func(http.ResponseWriter, *http.Request) // answers as without permission
	secret string                                   // that no error may show
}

// eachCloud runs a test for each provider, one after the other: Google's
// replaces the HTTP transport of the whole process.
func eachCloud(t *testing.T, test func(t *testing.T, c *cloud)) {
	for name, start := range testProviders {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

func newCloud(t testing.TB, w *proxy, sink, secret string) *cloud {
	keys := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(keys, "key"), []byte(secret), 0o600))
	c := &cloud{TB: t, way: w, sink: sink, sinks: snapshot.NewSinks(snapshot.PathPolicy{Credentials: keys}, clouds.Open)}
	t.Cleanup(func() { require.NoError(t, c.sinks.Close()) })
	return c
}

// bucket opens a bucket of the provider; one named bucket exists.
func (c *cloud) bucket(name string) snapshot.Bucket {
	b, err := c.sinks.BucketOf(c.Context(), synced(c, fmt.Sprintf("{sink: {"+c.sink+"}}", name)))
	require.NoError(c, err)
	return b
}

// harness returns a sink of a bucket, and containers to fill.
func (c *cloud) harness(bucket string) *harness {
	h := newHarness(c, "")
	var err error
	h.sink, err = c.sinks.Open(c.Context(), synced(c, fmt.Sprintf("{sink: {"+c.sink+"}}", bucket)))
	require.NoError(c, err)
	return h
}

// deny makes the provider refuse permission to all requests that are not
// excepted, until the intercept is cleared.
func (c *cloud) deny(but func(*http.Request) bool) {
	c.way.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
		if but != nil && but(r) {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		c.denied(w, r)
		return true
	})
}

func s3Cloud(t testing.TB) *cloud {
	w := newProxy(t, forward(t, s3test.Start(t)))
	c := newCloud(t, w, "type: s3, bucket: %s, region: us-east-1, endpoint: '"+w.URL+"', credentials: {file: key}",
		"aws_access_key_id = "+s3test.Key+"\naws_secret_access_key = "+s3test.Secret)
	c.denied = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
	}
	c.secret = s3test.Secret
	return c
}

func azureCloud(t testing.TB) *cloud {
	w := newProxy(t, newAzureServer())
	c := newCloud(t, w, "type: azure, account: "+azureAccount+", container: %s, credentials: {file: key}",
		"DefaultEndpointsProtocol=http;AccountName="+azureAccount+";AccountKey="+azureKey+";BlobEndpoint="+w.URL+"/"+azureAccount)
	c.denied = func(w http.ResponseWriter, _ *http.Request) {
		azureError(w, http.StatusForbidden, "AuthorizationPermissionMismatch")
	}
	c.secret = azureKey
	return c
}

// googleToken is the token for which the account's key is exchanged.
const googleToken = "a-token-that-no-one-may-see"

// gcsCloud opens a bucket with a service account key whose token server is the
// test's. Only requests with its token are accepted.
func gcsCloud(t testing.TB) *cloud {
	to := forward(t, gcstest.Start(t))
	w := newProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+googleToken {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		to.ServeHTTP(w, r)
	}))
	address, err := url.Parse(w.URL)
	require.NoError(t, err)
	usual, transport := http.DefaultTransport, &http.Transport{}
	http.DefaultTransport = &googleTransport{address, gcstest.Host, transport}
	t.Cleanup(func() { http.DefaultTransport = usual; transport.CloseIdleConnections() })
	key, secret := serviceAccount(t, tokens(t))
	c := withGoogleKey(t, w, key)
	c.denied = func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/storage/v1/") { // reads use the older protocol
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>Access denied.</Message></Error>")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":{"code":403,"message":"Permission 'storage.objects.get' denied on resource (or it may not exist).","errors":[{"domain":"global","reason":"forbidden","message":"denied"}]}}`)
	}
	c.secret = secret
	return c
}

// withGoogleKey opens buckets with the key of an account. Google's client
// searches for credentials of the machine too, without using them, but it would
// keep a connection to a metadata server. So it gets the same key.
func withGoogleKey(t testing.TB, w *proxy, key string) *cloud {
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(key), 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	return newCloud(t, w, "type: gcs, bucket: %s, credentials: {file: key}", key)
}

// tokens is a server that returns googleToken for a signed request.
func tokens(t testing.TB) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || strings.Count(r.FormValue("assertion"), ".") != 2 {
			http.Error(w, "no assertion", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"`+googleToken+`","token_type":"Bearer","expires_in":3600}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// serviceAccount returns the key of an account, as Google's console exports it,
// and its secret part.
func serviceAccount(t testing.TB, tokenURI string) (key, secret string) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	data, err := json.Marshal(map[string]string{
		"type": "service_account", "private_key": text, "client_email": "hostler@project.iam.gserviceaccount.com", "token_uri": tokenURI,
	})
	require.NoError(t, err)
	return string(data), text
}

func contentOf(t testing.TB, b snapshot.Bucket, key string) string {
	t.Helper()
	r, err := b.Get(t.Context(), key)
	require.NoError(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(data)
}
