package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/transport"
)

// listenConfig is the configuration of the listeners.
type listenConfig struct {
	tls  transport.Files
	unix string // path of a socket; empty: none
	// proxies are the CIDRs of proxies, whose connections are those of many clients.
	proxies []string
}

// flags defines the flags of the listeners.
func (c *listenConfig) flags(f *pflag.FlagSet) {
	f.StringVar(&c.tls.Cert, "tls-cert", "", "PEM file with the server's certificate and those between it and its root: --listen serves HTTPS; followed when it changes")
	f.StringVar(&c.tls.Key, "tls-key", "", "PEM file with the key of --tls-cert")
	f.StringVar(&c.tls.ClientCA, "tls-client-ca", "", "PEM file with the authorities of clients' certificates, with which they may authenticate; followed when it changes")
	f.StringVar(&c.unix, "listen-unix", "", "path of a Unix socket to serve the API on as well, for users of this machine")
	f.StringSliceVar(&c.proxies, "trusted-proxies", nil, "CIDRs of proxies, such as an ingress: their connections have the bound of all only, not that of one address")
}

// check returns an error that names what is wrong.
func (c *listenConfig) check() error {
	_, err := c.trusted()
	return errors.Join(c.tls.Check(), err)
}

// trusted returns the addresses of proxies.
func (c *listenConfig) trusted() (all []netip.Prefix, err error) {
	for _, text := range c.proxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("--trusted-proxies %q: it takes CIDRs such as 10.0.0.0/8, 192.0.2.7/32 or 2001:db8::/32", text)
		}
		all = append(all, prefix)
	}
	return all, nil
}

// newConnections returns the bounds of connections, by the limits of this process.
func (c *listenConfig) newConnections() (*transport.Connections, error) {
	trusted, err := c.trusted()
	if err != nil {
		return nil, err
	}
	var descriptors syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &descriptors); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	limits, err := transport.LimitsFor(descriptors.Cur, debug.SetMemoryLimit(-1), trusted)
	if err != nil {
		return nil, err
	}
	return transport.NewConnections(limits), nil
}

// listeners are where a server accepts connections.
type listeners struct {
	tcp  net.Listener
	unix *transport.UnixListener // nil: none
	tls  *transport.TLS          // of tcp; nil: none

	connections *transport.Connections
}

// listen opens the listeners.
func listen(c serveConfig, log *slog.Logger) (_ *listeners, err error) {
	l := &listeners{}
	if l.connections, err = c.listeners.newConnections(); err != nil {
		return nil, err
	}
	if c.listeners.tls.Cert != "" {
		if l.tls, err = transport.Load(c.listeners.tls, log); err != nil {
			return nil, fmt.Errorf("read the files of TLS: %w", err)
		}
	}
	if l.tcp, err = net.Listen("tcp", c.listen); err != nil {
		return nil, fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	l.tcp = l.connections.Listen(l.tcp) // before the handshake of TLS
	if l.tls != nil {
		l.tcp = tls.NewListener(l.tcp, l.tls.Config())
	}
	if c.listeners.unix == "" {
		return l, nil
	}
	if l.unix, err = transport.ListenUnix(c.listeners.unix); err != nil {
		return nil, errors.Join(err, l.tcp.Close())
	}
	return l, nil
}

// Close closes the listeners. A second call does nothing.
func (l *listeners) Close() {
	l.tcp.Close() //nolint:errcheck // it accepts no more connections
	if l.unix != nil {
		l.unix.Close() //nolint:errcheck // the next server replaces the socket
	}
}

// url returns where clients of the network reach the server.
func (l *listeners) url() string {
	if l.tls != nil {
		return "https://" + l.tcp.Addr().String()
	}
	return "http://" + l.tcp.Addr().String()
}

// problems returns what is wrong with the files of the listeners.
func (l *listeners) problems() []string {
	if l == nil || l.tls == nil {
		return nil
	}
	return l.tls.Problems()
}

// newServer returns the server of all listeners.
func (l *listeners) newServer(handler http.Handler, log *slog.Logger) *http.Server {
	var next func(context.Context, net.Conn) context.Context
	if l.tls != nil {
		handler, next = l.tls.Handler(handler), l.tls.ConnContext
	}
	server := api.NewServer(handler, log)
	server.ConnContext = transport.ConnContext(api.WithPeerUID, next)
	if l.tls != nil {
		server.TLSConfig = l.tls.Config() // with it, the server speaks HTTP/2
	}
	l.connections.Bound(server, api.WithAuthenticated)
	return server
}

// run serves until the server is shut down, and follows the files of TLS until ctx ends.
func (l *listeners) run(ctx context.Context, g *errgroup.Group, server *http.Server) {
	serve := func(on net.Listener) func() error {
		return func() error {
			if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve the API: %w", err)
			}
			return nil
		}
	}
	g.Go(serve(l.tcp))
	if l.unix != nil {
		g.Go(serve(l.connections.Listen(l.unix)))
	}
	if l.tls != nil {
		g.Go(func() error { return l.tls.Run(ctx) })
	}
}
