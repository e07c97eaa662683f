package googleauth

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
)

// account is a service account of the tests.
type account struct {
	key  *rsa.PrivateKey
	json []byte
}

func newAccount(t *testing.T, tokenURL string) account {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "hooks@project.example", "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": tokenURL,
	})
	require.NoError(t, err)
	return account{key, text}
}

// verify checks the assertion of a request for a token, and returns its claims.
func (a account) verify(t *testing.T, r *http.Request) map[string]any {
	t.Helper()
	parts := strings.Split(r.PostFormValue("assertion"), ".")
	require.Len(t, parts, 3)
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	require.NoError(t, err)
	hash := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	require.NoError(t, rsa.VerifyPKCS1v15(&a.key.PublicKey, crypto.SHA256, hash[:], signature))
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(text, &claims))
	return claims
}

// serve starts a server that counts its requests.
func serve(t *testing.T, handler http.HandlerFunc) (string, *atomic.Int64) {
	t.Helper()
	n := new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Add(1); handler(w, r) }))
	t.Cleanup(s.Close)
	return s.URL, n
}

func answerToken(w http.ResponseWriter, token string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token": %q, "expires_in": 3600, "token_type": "Bearer"}`, token)
}

// The key of a service account is exchanged for a token, which the request of a
// hook has. The token endpoint is dialed as any other host.
func TestServiceAccount(t *testing.T) {
	var a account
	url, exchanges := serve(t, func(w http.ResponseWriter, r *http.Request) {
		claims := a.verify(t, r)
		require.Equal(t, "hooks@project.example", claims["iss"])
		require.Equal(t, scope, claims["scope"])
		answerToken(w, "canary-token")
	})
	a = newAccount(t, url)
	api, calls := serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer canary-token", r.Header.Get("Authorization"))
		fmt.Fprint(w, "you sent ", r.Header.Get("Authorization"))
	})
	t.Setenv("HOSTLER_SECRET_KEY", string(a.json))
	parsed, err := variables.ParseTemplate(api)
	require.NoError(t, err)
	attempt := runner.Attempt{
		Timeout: 5 * time.Second, Secrets: map[string]hooks.Secret{"KEY": {Env: "HOSTLER_SECRET_KEY"}},
		Action: hooks.Request{URL: parsed, KeepResponse: true, Auth: hooks.Auth{Type: hooks.AuthGCPServiceAccount, Secret: "KEY"}},
	}
	x, err := request.New(request.Options{Google: new(Source), Allow: []string{"127.0.0.1"}})
	require.NoError(t, err)
	for range 3 {
		res := x.Execute(t.Context(), attempt)
		require.NoError(t, res.Err)
		require.Equal(t, "you sent Bearer •••", res.Detail.Response)
	}
	require.EqualValues(t, 1, exchanges.Load())
	require.EqualValues(t, 3, calls.Load())

	x, err = request.New(request.Options{Google: new(Source), Allow: []string{"127.0.0.1"}, Deny: []string{"127.0.0.0/8"}})
	require.NoError(t, err)
	res := x.Execute(t.Context(), attempt)
	require.Equal(t, hooks.StartFailed, res.State)
	require.ErrorContains(t, res.Err, "address refused")
	require.EqualValues(t, 1, exchanges.Load())
}

// An error has no part of the key, of the assertion or of the answer. A redirect
// is not followed with the assertion.
func TestServiceAccountErrors(t *testing.T) {
	elsewhere, reached := serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"refused": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error": "canary", "error_description": %q}`, r.PostFormValue("assertion"))
		}, "status 400"},
		"unavailable": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "canary", http.StatusServiceUnavailable) }, "status 503"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}, "status 307"},
		"not JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "canary") }, "no token"},
		"closed":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no token"},
	} {
		url, _ := serve(t, test.answer)
		a := newAccount(t, url+"/canary-path")
		_, err := new(Source).ServiceAccountToken(t.Context(), http.DefaultTransport, a.json)
		require.ErrorContains(t, err, test.want, name)
		for _, part := range []string{"canary", "PRIVATE", "assertion", "eyJ"} {
			require.NotContains(t, err.Error(), part, name)
		}
	}
	require.Zero(t, reached.Load())
	for _, key := range []string{"", "canary", "{}", `{"type": "external_account", "token_url": "http://127.0.0.1"}`, `{"type": "authorized_user"}`} {
		_, err := new(Source).ServiceAccountToken(t.Context(), http.DefaultTransport, []byte(key))
		require.EqualError(t, err, "the secret is not the JSON key of a service account")
	}
	_, err := new(Source).ServiceAccountToken(t.Context(), http.DefaultTransport, []byte(`{"type": "service_account", "private_key": "canary"}`))
	require.ErrorContains(t, err, "no token")
	require.NotContains(t, err.Error(), "canary")
}

// A token endpoint that hangs does not outlive the attempt.
func TestServiceAccountTimeout(t *testing.T) {
	url, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { _ = r.ParseForm(); <-r.Context().Done() })
	a := newAccount(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, err := new(Source).ServiceAccountToken(ctx, &http.Transport{DisableKeepAlives: true}, a.json)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(started), 5*time.Second)
}

// Google's order: the file of GOOGLE_APPLICATION_CREDENTIALS, then the metadata
// server. A metadata server that hangs does not outlive the attempt.
func TestDefaultCredentials(t *testing.T) {
	hang := make(chan struct{})
	var isHanging atomic.Bool
	metadata, asked := serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Google", r.Header.Get("Metadata-Flavor"))
		if !strings.HasSuffix(r.URL.Path, "/token") {
			fmt.Fprint(w, "project")
			return
		}
		require.Equal(t, "/computeMetadata/v1/instance/service-accounts/default/token", r.URL.Path)
		require.Equal(t, scope, r.URL.Query().Get("scopes"))
		if isHanging.Load() {
			<-hang
		}
		answerToken(w, "canary-metadata")
	})
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(metadata, "http://"))
	source := new(Source)
	token, err := source.DefaultToken(t.Context())
	require.NoError(t, err)
	require.Equal(t, "canary-metadata", token.Value)
	require.WithinDuration(t, time.Now().Add(time.Hour), token.Expires, time.Minute)

	isHanging.Store(true)
	before := asked.Load()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = source.DefaultToken(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	require.LessOrEqual(t, asked.Load(), before+2, "the calls share one request")
	close(hang)
	_, err = source.DefaultToken(t.Context())
	require.NoError(t, err)

	var a account
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { a.verify(t, r); answerToken(w, "canary-file") })
	a = newAccount(t, url)
	file := filepath.Join(t.TempDir(), "key.json")
	require.NoError(t, os.WriteFile(file, a.json, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	token, err = source.DefaultToken(t.Context())
	require.NoError(t, err)
	require.Equal(t, "canary-file", token.Value)

	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file+".none")
	_, err = source.DefaultToken(t.Context())
	require.EqualError(t, err, "no token: the server has no usable credentials of Google Cloud")
}
