// Package transport listens for the clients of a server: TLS with files that are
// followed, a Unix socket that knows its peers, and bounds of connections.
//
// It promises that connections stay open while files are replaced, that files which
// cannot be used change nothing, and that a client's certificate is valid at each
// request, not only at the handshake: one that has expired, or whose authority was
// replaced, is not shown to the handler, and ends the requests in progress. Connections
// without an authenticated request are the first to be closed. What a
// certificate or a user may do is left to package auth and those below it. Nothing
// that a proxy says of a client is read.
package transport
