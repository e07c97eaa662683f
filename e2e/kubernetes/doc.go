// Package kubernetes installs Hostler in a real cluster as operators do, with
// the chart and the image that this repository makes, and drives it there as
// tenants do. It holds the chart to what it promises: that it can be installed
// as it is, and that the server has no right in the cluster but those it needs.
//
// What Hostler does on a cluster, wherever its server runs, is package e2e's to
// test.
package kubernetes
