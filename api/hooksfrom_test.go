package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/pool"
)

// An author cannot read the hooks of another's workload by copying them, nor learn
// whether there is such a workload; with dry_run that would leave no trace.
func TestHooksOfOthersAreNotCopied(t *testing.T) {
	b := newTestBackend()
	b.Records["secret"] = pool.Record{ID: "secret", Source: []byte("id: secret\nimage: box\n")}
	o := b.Options()
	o.Auth = newTestAuth()
	a := api.New(o)
	put := func(key, query, parent string) (int, string) {
		answer := send(a, key, http.MethodPut, "/v1/workloads/web", query, "id: web\nimage: box\nhooks_from: "+parent+"\n")
		return answer.Code, answer.Body.String()
	}
	for _, query := range []string{"dry_run=true", ""} {
		for _, parent := range []string{"secret", "none"} {
			code, text := put("author", query, parent)
			require.Equal(t, http.StatusForbidden, code, text)
			require.Contains(t, text, "the credential is for other tenants or workloads")
			require.NotContains(t, text, parent)
		}
		code, text := put("operator", query, "secret")
		require.Less(t, code, 300, text)
	}
}
