package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/hostler/hostler/workload"
)

// ownDir is the directory below a tenant's prefix that Hostler uses.
const ownDir = ".hostler/"

// maxNameLength is the maximum length of a tenant's name in a key. File systems
// allow 255 bytes, and a prefix may add something before and after it.
const maxNameLength = 180

// tenantPrefix returns the prefix of all of a tenant's objects.
func tenantPrefix(s workload.Sink, tenant string) string {
	return strings.ReplaceAll(s.Prefix, workload.TenantPlaceholder, escapeName(tenant))
}

// workloadName matches the ids that package workload allows.
var workloadName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// ownerDir returns the directory of an owner's snapshots.
func ownerDir(s workload.Sink, o Owner) (string, error) {
	if o.Tenant == "" || !workloadName.MatchString(o.Workload) {
		return "", fmt.Errorf("%w: tenant %q of workload %q", ErrInvalidOwner, o.Tenant, o.Workload)
	}
	return tenantPrefix(s, o.Tenant) + ownDir + o.Workload + "/", nil
}

// escapeName returns a tenant's name as a single path component, valid on any
// file system and in any URL. Different tenants have different ones, also on
// case-insensitive file systems and on those that compose accents. Lowercase
// letters, digits, dashes and inner dots stand for themselves; every other byte
// is _ and two hexadecimal digits. A name that is too long is _h and its hash,
// which is unambiguous because h is not a hexadecimal digit.
func escapeName(tenant string) string {
	var b strings.Builder
	for i := range len(tenant) {
		c := tenant[i]
		inner := i > 0 && i < len(tenant)-1
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' && inner && tenant[i-1] != '.' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "_%02x", c)
	}
	if b.Len() > maxNameLength {
		sum := sha256.Sum256([]byte(tenant))
		return "_h" + hex.EncodeToString(sum[:])
	}
	return b.String()
}
