package benchmarks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

const (
	manyKeys     = 10_000
	manyBindings = 100
)

// BenchmarkCredentials measures a request to servers without credentials, with one key,
// and with 10,000 keys and 100 bindings, in turn: the empty list of claims, for an
// operator and for a tenant. The servers have nothing else to do.
func BenchmarkCredentials(b *testing.B) {
	path := buildServer(b)
	operator, tenant := "operator-"+strings.Repeat("k", 32), "tenant-"+strings.Repeat("k", 32)
	few := "ops:" + operator + "\n"
	many := strings.Builder{}
	many.WriteString(few + "ada:" + tenant + " role=tenant tenant=ada\n")
	for i := range manyKeys {
		fmt.Fprintf(&many, "key-%d:%032d role=tenant tenant=tenant-%d\n", i, i, i)
	}
	bindings := strings.Builder{}
	for i := range manyBindings {
		fmt.Fprintf(&bindings, "- {name: b%d, kind: unix, subject: \"%d\", role: tenant, tenants: [t%d]}\n", i, 10_000+i, i)
	}
	write := func(name, text string) string {
		file := filepath.Join(b.TempDir(), name)
		require.NoError(b, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	manyFlags := []string{"--api-key-file", write("many", many.String()), "--bindings-file", write("bindings", bindings.String())}
	asked := []struct {
		name  string
		key   string
		flags []string
	}{
		{"none", "", nil},
		{"one", operator, []string{"--api-key-file", write("one", few)}},
		{"many", operator, manyFlags},
		{"many-tenant", tenant, manyFlags},
	}
	clients := make([]*client.Client, len(asked))
	for i, a := range asked {
		s := startServer(b, path, append([]string{"--runtime", "process"}, a.flags...)...)
		var err error
		clients[i], err = client.New("http://"+s.address, a.key)
		require.NoError(b, err)
		_, err = clients[i].Claims(b.Context(), client.ClaimFilter{})
		require.NoError(b, err)
	}
	durations := make([][]time.Duration, len(asked))
	for b.Loop() {
		for i, c := range clients {
			start := time.Now()
			_, err := c.Claims(b.Context(), client.ClaimFilter{})
			require.NoError(b, err)
			durations[i] = append(durations[i], time.Since(start))
		}
	}
	for i, a := range asked {
		b.ReportMetric(float64(quantile(durations[i], .5).Nanoseconds())/1e3, a.name+"-p50-us")
		b.ReportMetric(float64(quantile(durations[i], .95).Nanoseconds())/1e3, a.name+"-p95-us")
	}
}
