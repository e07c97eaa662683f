package workload

import "strings"

// Overlaps says whether a tenant's folder in one sink may be, or lie in, another
// tenant's in the other: they keep in one place, under different prefixes that
// some name of a tenant makes alike. Under one prefix no two tenants meet.
func (s Sink) Overlaps(other Sink) bool {
	sameLocation := s.Type == other.Type && s.Bucket == other.Bucket && s.Account == other.Account && s.Endpoint == other.Endpoint
	// Folders may lie in each other, so that they are part of the prefix.
	a, b := s.Path+"/"+s.Prefix, other.Path+"/"+other.Prefix
	if !sameLocation || a == b {
		return false
	}
	these, those := strings.Split(strings.Trim(a, "/"), "/"), strings.Split(strings.Trim(b, "/"), "/")
	for i := range min(len(these), len(those)) {
		if !segmentsOverlap(these[i], those[i]) {
			return false
		}
	}
	return true
}

// segmentsOverlap says whether two parts of prefixes can be the same for some tenants.
// What is between the first and the last tenant of one is taken to be anything.
func segmentsOverlap(a, b string) bool {
	if !strings.Contains(a, TenantPlaceholder) {
		a, b = b, a
	}
	if !strings.Contains(a, TenantPlaceholder) {
		return a == b
	}
	head, tail := affixes(a)
	if !strings.Contains(b, TenantPlaceholder) {
		return len(b) > len(head)+len(tail) && strings.HasPrefix(b, head) && strings.HasSuffix(b, tail)
	}
	otherHead, otherTail := affixes(b)
	return (strings.HasPrefix(head, otherHead) || strings.HasPrefix(otherHead, head)) &&
		(strings.HasSuffix(tail, otherTail) || strings.HasSuffix(otherTail, tail))
}

// affixes is what is before the first tenant and behind the last.
func affixes(part string) (head, tail string) {
	return part[:strings.Index(part, TenantPlaceholder)], part[strings.LastIndex(part, TenantPlaceholder)+len(TenantPlaceholder):]
}
