// Package api serves Hostler over HTTP: JSON under /v1, the activity log as
// pages and streams, and an OpenAPI document that describes all of it.
//
// It promises that every client error is answered with a 4xx problem and a
// description, whatever the client sends; that errors have one table
// (errors.go) and the text of internal ones goes to the log only; that a
// follower of events gets each once and in order, and that a slow one is
// disconnected and costs the others nothing; and that a web page cannot use a
// server without keys. The services that it is given implement the calls.
package api
