// Package kubernetes installs Hostler in a real cluster as operators do, with
// the chart and the image of this repository, and drives it there as tenants do.
// It checks what the chart promises: that it can be installed as it is, and that
// the server has only the rights in the cluster that it needs.
//
// Package e2e tests what Hostler does on a cluster, wherever its server runs.
package kubernetes
