// Package api serves Hostler over HTTP: JSON under /v1, the activity log as
// pages and streams, and an OpenAPI document that describes all of it.
//
// It promises that what a client gets wrong is answered with a 4xx problem
// that says so in a sentence, whatever it sends; that errors have one table
// (errors.go) and internal ones show their text to nobody but the log; that a
// follower of events sees each once and in order, and that a slow one is cut
// off and costs the others nothing; and that a browser's page cannot reach a
// server which takes no keys. What the calls do is left to the services that
// it is given.
package api
