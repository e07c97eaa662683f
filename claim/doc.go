// Package claim assigns containers to tenants.
//
// It promises that a tenant has at most one live claim on a workload and a
// container at most one at all; that a repeated claim returns the existing one
// and runs nothing; that post_claim hooks run exactly once for a claim that
// becomes active; that a container which may hold another tenant's data is
// verified clean first or destroyed; and that a failed claim leaves no
// container behind. The steps are in steps.go, in order.
package claim
