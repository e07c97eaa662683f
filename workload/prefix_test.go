package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two prefixes overlap if and only if the directories of some tenants are equal
// or nested.
func TestSinkOverlaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"${tenantId}/", "${tenantId}/", false},
		{"${tenantId}/", "tenants/${tenantId}/", true},
		{"tenants/${tenantId}/", "tenants/${tenantId}/x/", true},
		{"tenants/${tenantId}/", "tenants/x/${tenantId}/", true},
		{"tenants/${tenantId}/", "state/tenants/${tenantId}/", false},
		{"a/${tenantId}/", "b/${tenantId}/", false},
		{"a-${tenantId}/", "${tenantId}/", true},
		{"a-${tenantId}/", "b-${tenantId}/", false},
		{"${tenantId}-a/", "${tenantId}-b/", false},
		{"a-${tenantId}/", "a/${tenantId}/", false},
		{"a-${tenantId}/", "a-b/${tenantId}/", true},
	} {
		for _, s := range []Sink{{Type: SinkS3, Bucket: "b"}, {Type: SinkFile, Path: "/srv"}, {Type: SinkFile}} {
			a, b := s, s
			a.Prefix, b.Prefix = c.a, c.b
			require.Equal(t, c.want, a.Overlaps(b), c)
			require.Equal(t, c.want, b.Overlaps(a), c)
			a.Bucket += "-other"
			require.False(t, a.Overlaps(b), c)
		}
	}
	require.True(t, Sink{Type: SinkFile, Path: "/srv", Prefix: "x/${tenantId}/"}.Overlaps(Sink{Type: SinkFile, Path: "/srv/x/y", Prefix: "${tenantId}/"}))
}
