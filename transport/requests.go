package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// maxFields is how many header fields a request may have.
const maxFields = 256

type connectionKey struct{}

// Bound has a server bound its connections. Call it last: it keeps the server's handler
// and ConnContext. withAuthenticated adds to the context of a request what is called
// when its sender is known, which returns false if the sender uses too many connections:
// with who made the credential, and with the credential if that is another's.
func (c *Connections) Bound(server *http.Server, withAuthenticated func(context.Context, func(actors ...string) bool) context.Context) {
	next, handler := server.ConnContext, server.Handler
	server.ConnState = c.connState
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if next != nil {
			ctx = next(ctx, conn)
		}
		bounded, _ := below[*connection](conn)
		return context.WithValue(ctx, connectionKey{}, bounded)
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := 0
		for _, values := range r.Header {
			fields += len(values)
		}
		if fields > maxFields {
			http.Error(w, fmt.Sprintf("the request has more than %d header fields", maxFields), http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		if conn, _ := r.Context().Value(connectionKey{}).(*connection); conn != nil {
			request := &inProgress{conn: conn}
			defer request.end()
			r = r.WithContext(withAuthenticated(r.Context(), request.authenticated))
		}
		handler.ServeHTTP(w, r)
	})
}

// inProgress is a request in progress.
type inProgress struct {
	conn   *connection
	actors []string // empty: not known
}

// authenticated counts the connection for each actor, once for all requests of the
// actor. It returns false if one has too many: the second one has a quarter of what the
// first one has.
func (r *inProgress) authenticated(actors ...string) bool {
	c := r.conn.of
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := c.limits.PerActor
	for _, actor := range actors {
		if r.conn.actors[actor] == 0 && c.byActor[actor]+r.conn.places > limit {
			return false
		}
		limit /= 4
	}
	for _, actor := range actors {
		if r.conn.actors[actor] == 0 {
			c.byActor[actor] += r.conn.places
		}
		r.conn.actors[actor]++
	}
	r.actors = actors
	r.conn.stopIdle()
	if r.conn.use != busy {
		r.conn.move(busy)
	}
	return true
}

func (r *inProgress) end() {
	c, conn := r.conn.of, r.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, actor := range r.actors {
		if conn.actors[actor]--; conn.actors[actor] > 0 {
			continue
		}
		delete(conn.actors, actor)
		if c.byActor[actor] -= conn.places; c.byActor[actor] == 0 {
			delete(c.byActor, actor)
		}
	}
	if len(conn.actors) == 0 && conn.use == busy {
		conn.move(idle)
	}
}

// connState is for http.Server.
func (c *Connections) connState(of net.Conn, state http.ConnState) {
	conn, ok := below[*connection](of)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case state == http.StateActive:
		if conn.isNew.Swap(false) {
			c.countHTTP2(conn, of)
		}
		conn.stopIdle()
	case state == http.StateIdle && conn.use != stranger:
		conn.move(idle)
	case state == http.StateIdle && len(conn.groups) > 0 && conn.idle == nil && !conn.isTrusted():
		conn.idle = time.AfterFunc(strangerIdleTimeout, func() { conn.Close() }) //nolint:errcheck // nothing else can be done
	}
}

// countHTTP2 counts a connection as several if its handshake chose HTTP/2, in place of
// other ones if a bound is reached. The caller holds the mutex.
func (c *Connections) countHTTP2(conn *connection, of net.Conn) {
	if encrypted, ok := of.(*tls.Conn); !ok || encrypted.ConnectionState().NegotiatedProtocol != "h2" {
		return
	}
	if !c.makeRoom(conn.networks) {
		c.remove(conn)
		conn.Conn.Close() //nolint:errcheck // it is not served
	}
	for _, g := range conn.groups {
		g.places[conn.use] += http2Places - conn.places
	}
	conn.places = http2Places
}
