package credential_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// The cost of a request's authentication does not depend on the number of keys, and
// bindings concern only what is no key.
func BenchmarkAuthenticate(b *testing.B) {
	for _, n := range []struct{ keys, bindings int }{{1, 0}, {10_000, 100}} {
		var lines, bindings strings.Builder
		for i := range n.keys {
			fmt.Fprintf(&lines, "key-%d:0123456789abcdef-%d\n", i, i)
		}
		for i := range n.bindings {
			fmt.Fprintf(&bindings, "- {name: b-%d, kind: unix, subject: \"%d\", role: viewer}\n", i, 1000+i)
		}
		s := newService(b, credential.Options{
			Store: openDatabase(b), KeyFile: writeFile(b, "keys", lines.String()), BindingsFile: writeFile(b, "bindings", bindings.String()),
		})
		op := mustBe(b, s, fmt.Sprintf("0123456789abcdef-%d", n.keys-1))
		token := mustToken(b, s, op, credential.NewToken{Tenant: "acme"})
		for name, r := range map[string]auth.Request{
			"key": {Bearer: fmt.Sprintf("0123456789abcdef-%d", n.keys-1)}, "token": {Bearer: token}, "unknown": {Bearer: "hostler_unknown"},
			"user": {UID: new(uint32(1000))},
		} {
			b.Run(fmt.Sprintf("%d keys, %d bindings/%s", n.keys, n.bindings, name), func(b *testing.B) {
				for b.Loop() {
					s.Authenticate(b.Context(), r) //nolint:errcheck // some are refused
				}
			})
		}
	}
}
