// Package pool keeps containers that wait for tenants: it creates them, keeps
// as many idle as the workload asks, replaces the dead and the outdated, and
// destroys what is no longer wanted.
//
// It promises that a container's row is written before the container is made
// and outlives it, so that nothing that Hostler made is forgotten; that no
// more than max_size containers of a workload exist at once; that a workload
// whose containers cannot be made is tried ever more slowly, and says why; and
// that a container which Hostler did not make is never touched. Who may have a
// container is left to package claim, giving it back to package release.
package pool
