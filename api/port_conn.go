package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// tcpProtocol is the name in Upgrade of a connection to a port.
const tcpProtocol = "tcp"

// servePortConn connects a client to a port: after the response the connection is
// that of the program, in both directions.
func (a *API) servePortConn(rec *recorder, r *http.Request, to portRoute) {
	ctx, cancel := context.WithCancelCause(r.Context())
	upgraded := make(chan struct{})
	var watch errgroup.Group
	watch.Go(func() error { a.cancelAtClose(ctx, cancel, upgraded); return nil })
	defer watch.Wait() //nolint:errcheck // it returns none
	defer cancel(nil)
	conn, err := a.o.Ports.Dial(ctx, to.claim, to.port)
	if err != nil {
		rec.refuse(a.problem(r.Context(), err))
		return
	}
	defer conn.Close() //nolint:errcheck // it is over
	client, buffered, err := rec.control.Hijack()
	if err != nil {
		rec.refuse(newProblem(r.Context(), InvalidRequest, "a connection needs HTTP/1.1"))
		return
	}
	defer client.Close() //nolint:errcheck // it is over
	rec.status = http.StatusSwitchingProtocols
	close(upgraded)
	if _, err := fmt.Fprintf(client, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Request-Id: %s\r\n\r\n",
		tcpProtocol, requestID(r.Context())); err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { reset(client); conn.Close() }) //nolint:errcheck // it is over
	defer stop()
	// The reader is for requests: its end would end the context.
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) //nolint:errcheck // it has them
	rec.written = splice(client, io.MultiReader(bytes.NewReader(early), client), conn)
}

// splice copies between a client and a program until both directions have ended or
// one has failed. It returns how many bytes the client got.
func splice(client net.Conn, fromClient io.Reader, program net.Conn) (written int64) {
	var both errgroup.Group
	end := func(err error) error {
		if err != nil { // of one direction: the other one would not end
			reset(client)
			program.Close() //nolint:errcheck // it is over
		}
		return err
	}
	both.Go(func() error {
		_, err := io.CopyBuffer(struct{ io.Writer }{program}, fromClient, make([]byte, copyBufferSize))
		if err == nil {
			err = closeWrite(program)
		}
		return end(err)
	})
	both.Go(func() (err error) {
		written, err = io.CopyBuffer(struct{ io.Writer }{client}, struct{ io.Reader }{program}, make([]byte, copyBufferSize))
		if err == nil {
			err = closeWrite(client)
		}
		return end(err)
	})
	_ = both.Wait() // a connection that ends otherwise has shown that to both ends
	return written
}

// reset closes a connection so that its client does not take what it got for
// complete.
func reset(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn() // without the notice of TLS that everything was sent
	}
	if tcp, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // it is closed already
	}
	_ = c.Close()
}
