// Package snapshot stores tenants' state outside of their containers: it
// uploads the files that a workload's sync names from a container to a sink,
// and downloads them into the next one.
//
// It promises:
//
//   - A snapshot becomes the current one in one atomic step after all of it is
//     stored. A failure or a kill before that step leaves the last good one
//     unchanged.
//   - Of two concurrent uploads for the same tenant one wins, and the other
//     gets an error. An older claim never replaces a newer claim's snapshot.
//   - No object is ever written twice, and none that a kept snapshot needs is
//     deleted. What none needs any more stays for an hour, for downloads that
//     still read it. A seen list is a hint, and may be replaced.
//   - Files are streamed: neither memory nor the server's disk holds a tenant's
//     state, and the number of concurrent uploads is bounded by memory.
//   - What comes out of a container is controlled by a tenant and untrusted: an
//     archive that points outside of its directory is refused, and sizes and
//     numbers are bounded.
//
// The layout of a sink, below the tenant's prefix:
//
//	.hostler/WORKLOAD/heads/N.json        the list of snapshots (manifest); the highest N is current
//	.hostler/WORKLOAD/packs/UUID          contents of files, and indexes of them
//	.hostler/WORKLOAD/seen/…              what a container had, as a hint for its next upload
//	anything else                         other files, for mappings that only download
//
// docs/state-format.md has the format.
//
// The commit is the creation of manifest N+1, which only one upload can do. All
// that a sink must offer is to create an object if it does not exist. Replacing
// one "current" object would need a condition on its content, which every
// provider spells differently and a directory does not have.
//
// The flows decide when to move state, and what a failure means for a claim.
package snapshot
