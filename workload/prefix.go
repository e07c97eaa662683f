package workload

import "strings"

// Overlaps reports whether the directory of a tenant in one sink can be equal to
// or below that of another tenant in the other sink: both sinks have the same
// location, and their prefixes differ but match for some tenants. Equal prefixes
// do not overlap, because they separate tenants.
func (s Sink) Overlaps(other Sink) bool {
	sameLocation := s.Type == other.Type && s.Bucket == other.Bucket && s.Account == other.Account && s.Endpoint == other.Endpoint
	// Directories may be nested, so they are part of the prefix.
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

// segmentsOverlap reports whether two segments of prefixes can be equal for some
// tenants. The text between the first and the last placeholder of a segment is
// assumed to match anything.
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

// affixes returns the text before the first placeholder and after the last.
func affixes(part string) (head, tail string) {
	return part[:strings.Index(part, TenantPlaceholder)], part[strings.LastIndex(part, TenantPlaceholder)+len(TenantPlaceholder):]
}
