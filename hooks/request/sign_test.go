package request

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

// The library of Standard Webhooks verifies what is sent: the envelope or the
// body, under an id that is the same at every attempt.
func TestSignature(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	encoded := base64.StdEncoding.EncodeToString(key)
	withPrefix, err := standardwebhooks.NewWebhook("whsec_" + encoded)
	require.NoError(t, err)
	raw, err := standardwebhooks.NewWebhookRaw([]byte("a raw key, not base64"))
	require.NoError(t, err)
	other, err := standardwebhooks.NewWebhookRaw([]byte("another key"))
	require.NoError(t, err)

	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	x := newExecutor(t, Options{})
	for _, test := range []struct {
		secret   string
		verifier *standardwebhooks.Webhook
		request  hooks.Request
	}{
		{"whsec_" + encoded, withPrefix, hooks.Request{}},
		{"a raw key, not base64", raw, hooks.Request{Body: bodyOf(t, `{"text": "ä"}`)}},
	} {
		t.Setenv("HOSTLER_SECRET_KEY", test.secret)
		test.request.Webhook, test.request.Sign, test.request.URL = true, "KEY", template(t, r.URL)
		a := attemptOf(test.request)
		a.Secrets = map[string]hooks.Secret{"KEY": {Env: "HOSTLER_SECRET_KEY"}}
		for a.Attempt = 1; a.Attempt <= 2; a.Attempt++ {
			before := time.Now().Truncate(time.Second)
			x.Execute(t.Context(), a)
			got := r.all()[len(r.all())-1]
			require.NoError(t, test.verifier.Verify([]byte(got.body), got.header))
			require.ErrorIs(t, other.Verify([]byte(got.body), got.header), standardwebhooks.ErrNoMatchingSignature)
			require.ErrorIs(t, test.verifier.Verify([]byte(got.body+" "), got.header), standardwebhooks.ErrNoMatchingSignature)
			require.Equal(t, "run-1", got.header.Get("webhook-id"))
			require.NotContains(t, got.header.Get("webhook-signature"), test.secret)
			require.False(t, before.After(time.Now()))
		}
	}
	t.Setenv("HOSTLER_SECRET_KEY", "whsec_not base64!")
	a := attemptOf(hooks.Request{Webhook: true, Sign: "KEY", URL: template(t, r.URL)})
	a.Secrets = map[string]hooks.Secret{"KEY": {Env: "HOSTLER_SECRET_KEY"}}
	require.Equal(t, hooks.StartFailed, x.Execute(t.Context(), a).State)
}

// The timestamp is that of the attempt: receivers refuse old ones.
func TestSignatureTime(t *testing.T) {
	first, second := &message{header: http.Header{}}, &message{header: http.Header{}}
	require.NoError(t, first.sign("12345678", "run-1", time.Unix(1000, 0)))
	require.NoError(t, second.sign("12345678", "run-1", time.Unix(2000, 0)))
	require.Equal(t, "1000", first.header.Get("webhook-timestamp"))
	require.Equal(t, "2000", second.header.Get("webhook-timestamp"))
	require.NotEqual(t, first.header.Get("webhook-signature"), second.header.Get("webhook-signature"))
}
