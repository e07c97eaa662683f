// Package cloud stores snapshots with providers of object storage: S3, Google
// Cloud Storage and Azure. It is a package of its own because their clients are
// large: only a program that opens such sinks links them.
package cloud
