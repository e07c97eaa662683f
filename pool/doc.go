// Package pool manages pools of idle containers. It creates containers, keeps
// min_idle of them idle, replaces exited and outdated ones, and destroys those
// that are no longer needed.
//
// It promises that a container's row is written before the container is created
// and outlives it, so that no container of Hostler is lost; that at most
// max_size containers of a workload exist; that creation is retried with
// backoff and the reason of the last failure is reported; and that a container
// that Hostler did not create is never changed. Package claim assigns
// containers to tenants, package release returns them.
package pool
