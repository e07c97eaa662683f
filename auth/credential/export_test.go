package credential

// TenantPattern is that of this package, for its tests.
var TenantPattern = tenantPattern.String()

// ParseHash is parseHash of this package, for its tests.
func ParseHash(text string) error {
	_, err := parseHash(text)
	return err
}
