package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/hostler/hostler/workload"
)

// ownDir is the folder below a tenant's prefix that is ours.
const ownDir = ".hostler/"

// maxNameLength is how long a tenant's name in a key may be. File systems take 255
// bytes, and a prefix may put something before and behind it.
const maxNameLength = 180

// tenantPrefix is where everything of a tenant is.
func tenantPrefix(s workload.Sink, tenant string) string {
	return strings.ReplaceAll(s.Prefix, workload.TenantPlaceholder, escapeName(tenant))
}

// workloadName is what package workload allows for an id.
var workloadName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// ownerDir is where an owner's snapshots are.
func ownerDir(s workload.Sink, o Owner) (string, error) {
	if o.Tenant == "" || !workloadName.MatchString(o.Workload) {
		return "", fmt.Errorf("%w: tenant %q of workload %q", ErrInvalidOwner, o.Tenant, o.Workload)
	}
	return tenantPrefix(s, o.Tenant) + ownDir + o.Workload + "/", nil
}

// escapeName makes a tenant's name into one that is a single part of a path, on any
// file system and in any URL. Different tenants have different ones, also
// where capitals are not told from small letters or accents are composed: small
// letters, digits, dashes and inner dots stand for themselves, every other byte
// is _ and two hexadecimal digits. A name too long is _h and its hash, which no
// other name can be, as h is no such digit.
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
