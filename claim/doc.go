// Package claim hands a container to a tenant.
//
// It promises that a tenant has at most one live claim on a workload and a
// container at most one at all; that asking again for a claim that one holds
// returns it and runs nothing; that post_claim hooks run exactly once for a
// claim that becomes active; that a container which may hold anything of
// another tenant is proven clean first or destroyed; and that a claim which
// fails leaves no container behind. The steps are in steps.go, in order.
package claim
