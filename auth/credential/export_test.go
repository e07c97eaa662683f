package credential

// TenantPattern is that of this package, for its tests.
var TenantPattern = tenantPattern.String()
