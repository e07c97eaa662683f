// Package snapshot keeps tenants' state outside of their containers: it takes
// the files that a workload's sync names out of a container into a sink, and
// puts them into the next one.
//
// It promises:
//
//   - A snapshot becomes the current one in one atomic step after all of it is
//     stored. Whatever fails, or is killed, before that step leaves the last
//     good one as it was.
//   - Of two who upload for the same tenant at the same time one wins, and the
//     other is told. A claim's snapshot is never replaced by an older claim's.
//   - No object is ever written twice, and none that a kept snapshot needs is
//     deleted.
//   - Files stream: neither memory nor the server's disk holds a tenant's state,
//     and only as many are sent at once as there is memory for.
//   - What comes out of a container is a tenant's and believed in nothing: an
//     archive that points outside of its folder is refused, and sizes and
//     numbers are bounded.
//
// What lies in a sink, below the tenant's prefix:
//
//	.hostler/WORKLOAD/heads/N.json        which snapshots there are; the highest N counts
//	.hostler/WORKLOAD/data/UUID.tar.zst   the files of one mapping
//	anything else                         files of others, for mappings that only download
//
// The step that counts is to create the head N+1, which only one can do: all
// that sinks have to offer is to create an object if there is none. To replace
// one "current" object would need a condition on its content, which every
// provider spells differently and a folder does not know.
//
// When to move state, and what a failure means for a claim, is left to the
// flows.
package snapshot
