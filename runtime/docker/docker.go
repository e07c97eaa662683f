// Package docker runs containers on a Docker engine, 20.10 or newer, near or
// far: everything goes through the engine's API and nothing is mounted from
// the engine's machine.
//
// Process 1 of every container is Hostler's shim, which starts the workload's
// own command and, over one long-lived exec session per container, everything
// else that is run there. The shim comes from a read-only volume that is made
// once per version of it. The package promises the contract of package runtime
// and leaves to others which containers there should be.
//
// What it makes is labelled with the instance that made it. Nothing without
// that label is ever listed, changed or removed.
package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/docker/docker/client"
	"golang.org/x/sync/singleflight"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

var _ runtime.Runtime = (*Runtime)(nil)

// Options say which engine, on whose behalf and with which shim.
type Options struct {
	// Instance tells this Hostler's containers from another's on the same
	// engine. Two that share it see each other's containers as their own.
	Instance string
	// Secret is what the tokens of the sessions are derived from. A server that
	// starts again needs the same to take up its containers.
	Secret []byte
	// ShimPath is the static hostler-shim for the engine's platform.
	ShimPath string
	// Profiles is the folder of the seccomp profiles that workloads may name, each
	// a file NAME.json. Empty for none.
	Profiles string
	// Host is the engine's address, such as unix:///var/run/docker.sock. Empty
	// means the environment's: DOCKER_HOST and its fellows, or the default.
	Host string
	// UnresponsiveTimeout and MayChange are those of shim.Options.
	UnresponsiveTimeout time.Duration
	MayChange           func() error
}

// Runtime is a Docker engine. It is made by New.
type Runtime struct {
	api      *client.Client
	instance string
	secret   []byte
	profiles string
	shim     shimBinary
	sessions *shim.Sessions // by our id
	pulls    singleflight.Group

	// shimMu is held while the shim's volume is looked after, and guards
	// shimMade: when the volume that is known to be whole was created.
	shimMu            sync.Mutex
	shimVolumeCreated string

	// removeSem has room for one: containers leave their networks one after
	// another. Engine 20.10 locks up for good when several leave one network of
	// ours at once (libnetwork: sbLeave against the removal of an endpoint).
	removeSem chan struct{}

	// networkMu keeps two calls from making the network at once.
	networkMu sync.Mutex
}

// shimBinary is the program that goes into every container.
type shimBinary struct {
	content []byte
	hash    string // hex SHA-256 of content
}

// volume is the name of the volume that holds exactly this shim, as shimArchive
// lays it out.
func (s shimBinary) volume() string { return "hostler-shim-" + s.hash[:16] + "-mount" }

// New prepares to talk to an engine. It need not be there yet: calls are
// runtime.ErrUnavailable until it is.
func New(ctx context.Context, o Options) (*Runtime, error) {
	if o.Instance == "" || len(o.Secret) == 0 {
		return nil, errors.New("connect to docker: an instance and a secret are needed")
	}
	content, err := os.ReadFile(o.ShimPath)
	if err != nil {
		return nil, fmt.Errorf("connect to docker: read the shim: %w", err)
	}
	api, err := newClient(o.Host)
	if err != nil {
		return nil, fmt.Errorf("connect to docker: %w", err)
	}
	sum := sha256.Sum256(content)
	r := &Runtime{
		api:       api,
		instance:  o.Instance,
		secret:    o.Secret,
		profiles:  o.Profiles,
		shim:      shimBinary{content: content, hash: hex.EncodeToString(sum[:])},
		removeSem: make(chan struct{}, 1),
	}
	r.sessions = shim.NewSessions(shim.Options{
		Secret: o.Secret, Dial: r.dial, CheckRunning: r.checkRunning,
		UnresponsiveTimeout: o.UnresponsiveTimeout, MayChange: o.MayChange,
	})
	return r, nil
}

// Ping asks whether the engine answers; runtime.ErrUnavailable when not.
func (r *Runtime) Ping(ctx context.Context) error {
	if _, err := r.api.Ping(ctx); err != nil {
		return fmt.Errorf("reach docker: %w", r.apiError(ctx, err))
	}
	return nil
}

// Close ends the sessions and the connections. Containers run on.
func (r *Runtime) Close() error {
	return errors.Join(r.sessions.Close(), r.api.Close())
}

// newClient makes the API's client; it connects to nothing yet.
func newClient(host string) (*client.Client, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	return client.NewClientWithOpts(append(opts, interruptible)...)
}

// hijackKey marks the context of a request that takes over its connection.
type hijackKey struct{}

// interruptible makes requests that take over their connection end with their
// context: the client waits for the engine's answer to those without looking
// at it, so an engine that accepts and then stands still would hang the call.
// Connections with TLS are dialled elsewhere in the client and left as they
// are.
func interruptible(c *client.Client) error {
	transport, ok := c.HTTPClient().Transport.(*http.Transport)
	if !ok || transport.TLSClientConfig != nil {
		return nil
	}
	dial := transport.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return client.WithDialContext(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if guard, ok := ctx.Value(hijackKey{}).(*hijackGuard); ok && err == nil {
			guard.stop = context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	})(c)
}

// hijackGuard closes a connection when the context ends before release.
type hijackGuard struct{ stop func() bool }

// release leaves the connection to its owner.
func (g *hijackGuard) release() {
	if g.stop != nil {
		g.stop()
	}
}
