package workload

import "strings"

// Meets says whether a tenant's folder in one sink may be, or lie in, another
// tenant's in the other: they keep in one place, under different prefixes that
// some name of a tenant makes alike. Under one prefix no two tenants meet.
func (s Sink) Meets(other Sink) bool {
	there := s.Type == other.Type && s.Bucket == other.Bucket && s.Account == other.Account && s.Endpoint == other.Endpoint
	// Folders may lie in each other, so that they are part of the prefix.
	a, b := s.Path+"/"+s.Prefix, other.Path+"/"+other.Prefix
	if !there || a == b {
		return false
	}
	these, those := strings.Split(strings.Trim(a, "/"), "/"), strings.Split(strings.Trim(b, "/"), "/")
	for i := range min(len(these), len(those)) {
		if !alike(these[i], those[i]) {
			return false
		}
	}
	return true
}

// alike says whether two parts of prefixes can be the same for some tenants.
// What is between the first and the last tenant of one is taken to be anything.
func alike(a, b string) bool {
	if !strings.Contains(a, TenantID) {
		a, b = b, a
	}
	if !strings.Contains(a, TenantID) {
		return a == b
	}
	head, tail := ends(a)
	if !strings.Contains(b, TenantID) {
		return len(b) > len(head)+len(tail) && strings.HasPrefix(b, head) && strings.HasSuffix(b, tail)
	}
	otherHead, otherTail := ends(b)
	return (strings.HasPrefix(head, otherHead) || strings.HasPrefix(otherHead, head)) &&
		(strings.HasSuffix(tail, otherTail) || strings.HasSuffix(otherTail, tail))
}

// ends is what is before the first tenant and behind the last.
func ends(part string) (head, tail string) {
	return part[:strings.Index(part, TenantID)], part[strings.LastIndex(part, TenantID)+len(TenantID):]
}
