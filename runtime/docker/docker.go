// Package docker runs containers on a local or remote Docker engine, 20.10 or
// newer: everything goes through the engine's API and nothing is mounted from
// the engine's machine.
//
// Process 1 of every container is Hostler's shim. It starts the workload's own
// command and, over one long-lived exec session per container, everything else
// that runs there. The shim comes from a read-only volume that is created once
// per version of it. The package promises the contract of package runtime and
// leaves to others which containers exist.
//
// What it creates is labeled with the instance that created it. It never lists,
// changes or removes anything without that label.
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
	"sync/atomic"
	"time"

	"github.com/docker/docker/client"
	"golang.org/x/sync/singleflight"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

var _ runtime.Runtime = (*Runtime)(nil)

// Options name the engine, the instance and the shim.
type Options struct {
	// Instance distinguishes this Hostler's containers from another's on the
	// same engine. Two that share it treat each other's containers as their own.
	Instance string
	// Secret is what the session tokens are derived from. A restarted server
	// needs the same secret to resume its containers.
	Secret []byte
	// ShimPath is the static hostler-shim for the engine's platform.
	ShimPath string
	// Profiles is the directory of the seccomp profiles that workloads may name,
	// each a file NAME.json. Empty means none.
	Profiles string
	// Host is the engine's address, such as unix:///var/run/docker.sock. Empty
	// means the environment's, such as DOCKER_HOST, or the default.
	Host string
	// UnresponsiveTimeout and MayChange are those of shim.Options.
	UnresponsiveTimeout time.Duration
	MayChange           func() error
}

// Runtime is a Docker engine. New creates it.
type Runtime struct {
	backend.Containers
	sessions *shim.Sessions // by Hostler's id
	api      *client.Client
	instance string
	secret   []byte // of the containers' keys
	profiles string
	shim     shimBinary
	pulls    singleflight.Group
	name     atomic.Pointer[string] // of the engine's machine, once it is known

	// shimMu is held while the shim's volume is checked or filled. It guards
	// shimVolumeCreated: when the volume that is known to be complete was created.
	shimMu            sync.Mutex
	shimVolumeCreated string

	// removeSem has room for one: containers leave their networks one after
	// another. Engine 20.10 locks up permanently when several leave one of our
	// networks concurrently (libnetwork: sbLeave against endpoint removal).
	removeSem chan struct{}

	// networkMu prevents two calls from creating the network concurrently.
	networkMu sync.Mutex
}

// shimBinary is the program that goes into every container.
type shimBinary struct {
	content []byte
	hash    string // hex SHA-256 of content
}

// volume returns the name of the volume that holds exactly this shim, in the
// layout of shimArchive.
func (s shimBinary) volume() string { return "hostler-shim-" + s.hash[:16] + "-mount" }

// New prepares a client of an engine. The engine need not be available yet:
// until it is, calls return runtime.ErrUnavailable.
func New(ctx context.Context, o Options) (*Runtime, error) {
	if o.Instance == "" || len(o.Secret) == 0 {
		return nil, errors.New("connect to docker: an instance and a secret are required")
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
	r.setSessions(shim.NewSessions(shim.Options{
		Secret: o.Secret, Dial: r.dial, CheckRunning: r.checkRunning,
		UnresponsiveTimeout: o.UnresponsiveTimeout, MayChange: o.MayChange,
	}))
	return r, nil
}

func (r *Runtime) setSessions(sessions *shim.Sessions) {
	r.sessions = sessions
	r.Containers = backend.New(sessions, backend.Options{
		Secret: r.secret, Resume: r.resume, Status: r.Status, Mounts: r.volumeMounts, CopyLog: r.copyLog,
	})
}

// Ping returns nil if the engine responds, else runtime.ErrUnavailable.
func (r *Runtime) Ping(ctx context.Context) error {
	if _, err := r.api.Ping(ctx); err != nil {
		return fmt.Errorf("reach docker: %w", r.apiError(ctx, err))
	}
	return nil
}

// Close ends the sessions and the connections. Containers keep running.
func (r *Runtime) Close() error {
	return errors.Join(r.sessions.Close(), r.api.Close())
}

// newClient creates the API's client; it connects to nothing yet.
func newClient(host string) (*client.Client, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	return client.NewClientWithOpts(append(opts, interruptible)...)
}

// hijackKey marks the context of a request that takes over its connection.
type hijackKey struct{}

// interruptible makes requests that hijack their connection end with their
// context: for those, the client waits for the engine's response without
// checking the context, so an engine that accepts and then blocks would hang
// the call. Connections with TLS are dialed elsewhere in the client and left
// unchanged.
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
