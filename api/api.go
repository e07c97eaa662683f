package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// Options configure the API.
type Options struct {
	Workloads  Workloads
	Pools      Pools
	Containers Containers
	Claimer    Claimer
	Releaser   Releaser
	Claims     ClaimReader
	State      State
	Doctor     Doctor
	Events     EventSource
	Runs       RunReader
	Deliveries Deliveries
	Publisher  Publisher
	DryRuns    DryRunner
	Memory     Memory
	Waits      Waits
	Files      Files
	Access     *access.Service
	Ports      Ports
	Keys       Keyring
	Bindings   Bindings
	Quotas     Quotas

	// StorageUnavailable are the errors of the database that indicate that it
	// is temporarily unavailable.
	StorageUnavailable []error

	PortDomain PortDomain // of the ports of claims
	Denials    Denials    // nil: not recorded

	Ready   func(context.Context) error // returns why the server is not ready
	Metrics http.Handler                // nil: no /metrics
	Auth    auth.Authenticator          // nil: every client on this machine is an operator
	Version string
	Log     *slog.Logger

	// LiveOutput returns the record of a running attempt with what it has printed
	// so far. nil: records have output when the attempt has ended.
	LiveOutput func(context.Context, hooks.Run) hooks.Run

	// OnRequest is called when a request begins, and what it returns when it was
	// answered; OnFollower likewise for a stream of events. nil: nothing observes them.
	OnRequest  func() (end func(Served))
	OnFollower func() (end func())

	// EngineBound returns a context that ends when the engine does not respond after
	// the deadline, with an error that is runtime.ErrUnavailable. nil: it never ends.
	EngineBound func(ctx context.Context, deadline time.Time) (_ context.Context, end func())

	// WriteTimeout bounds one write to a client. Heartbeat is the interval of
	// heartbeats on an idle stream. UploadTimeout is how long a client may take for
	// a part of a file, and LastWriteTimeout for all that is left to write when its
	// credential has ended. Zero means the default.
	WriteTimeout     time.Duration
	LastWriteTimeout time.Duration
	UploadTimeout    time.Duration
	Heartbeat        time.Duration
}

// Defaults for Options.
const (
	defaultWriteTimeout     = 20 * time.Second
	defaultLastWriteTimeout = time.Second
	defaultUploadTimeout    = 60 * time.Second
	defaultHeartbeat        = 15 * time.Second
)

// API is the HTTP handler.
type API struct {
	o          Options
	mux        *http.ServeMux
	huma       huma.API
	document   func() []byte // of OpenAPI
	handler    http.Handler
	patterns   []string          // of the mux
	rules      map[string]rule   // by pattern
	operations map[string]string // their IDs, by pattern
	closing    chan struct{}     // closed when streams must end

	closeOnce sync.Once
	ready     readiness

	crossOrigin *http.CrossOriginProtection

	portTransport *http.Transport
	portBuffers   copyBuffers

	followers followers
	bodies    bodies
}

// New returns the API with all its routes.
func New(o Options) *API {
	if o.WriteTimeout == 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	if o.LastWriteTimeout == 0 {
		o.LastWriteTimeout = defaultLastWriteTimeout
	}
	if o.UploadTimeout == 0 {
		o.UploadTimeout = defaultUploadTimeout
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &API{o: o, mux: http.NewServeMux(), rules: map[string]rule{}, operations: map[string]string{}, closing: make(chan struct{}), crossOrigin: http.NewCrossOriginProtection()}
	a.bodies.max = sharedFor(debug.SetMemoryLimit(-1))
	a.huma = humago.New(patternRecorder{a}, a.config())
	a.portTransport = newPortTransport(o.Ports)
	a.huma.UseMiddleware(a.refuseRepeated)
	a.routes()
	a.describe()
	a.document = sync.OnceValue(a.encodeDocument)
	a.handler = a.middleware(a.mux)
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// routes registers all routes.
func (a *API) routes() {
	handle(a, op("list-workloads", "GET /v1/workloads", "List the workloads"), a.listWorkloads)
	handle(a, op("get-workload", "GET /v1/workloads/{id}", "Show a workload"), a.getWorkload)
	handle(a, op("apply-workload", "PUT /v1/workloads/{id}", "Apply a workload file"), a.applyWorkload)
	handle(a, op("delete-workload", "DELETE /v1/workloads/{id}", "Delete a workload"), a.deleteWorkload)

	handle(a, op("list-pools", "GET /v1/pools", "List the pools"), a.listPools)
	handle(a, op("get-pool", "GET /v1/pools/{workload}", "Show a pool"), a.getPool)
	handle(a, op("scale-pool", "POST /v1/pools/{workload}/scale", "Change a pool's bounds"), a.scalePool)
	handle(a, op("drain-pool", "POST /v1/pools/{workload}/drain", "Empty a pool"), a.drainPool)

	handle(a, op("list-containers", "GET /v1/containers", "List containers"), a.listContainers)
	handle(a, op("get-container", "GET /v1/containers/{id}", "Show a container"), a.getContainer)
	handle(a, op("destroy-container", "DELETE /v1/containers/{id}", "Destroy a container"), a.destroyContainer)
	handle(a, op("container-logs", "GET /v1/containers/{id}/logs", "Read a container's logs"), a.containerLogs)

	handle(a, op("claim", "POST /v1/claims", "Claim a container"), a.claim)
	handle(a, op("list-claims", "GET /v1/claims", "List claims"), a.listClaims)
	handle(a, op("get-claim", "GET /v1/claims/{id}", "Show a claim"), a.getClaim)
	handle(a, op("extend", "POST /v1/claims/{id}/extend", "Extend a claim's lifetime"), a.extend)
	handle(a, op("touch", "POST /v1/claims/{id}/touch", "Record that a claim is still in use"), a.touch)
	handle(a, op("set-activity", "PUT /v1/claims/{id}/activity", "Record what a claim's program does"), a.setActivity)
	handle(a, op("release", "POST /v1/claims/{id}/release", "Release a claim"), a.release)
	handle(a, op("test-claim", "POST /v1/claims/{id}/hooks/test", "Run the hooks of a point once in a claim's container, as a test"), a.liveTest)
	handle(a, op("wait", "POST /v1/claims/{id}/waits", "Wait for a signal"), a.wait)
	handle(a, op("get-wait", "GET /v1/waits/{id}", "Show a wait, or wait for its end"), a.getWait)
	handle(a, op("signal", "POST /v1/claims/{id}/signals", "Send a signal to a wait"), a.signal)
	handle(a, op("list-waits", "GET /v1/waits", "List waits"), a.listWaits)
	handle(a, op("sync", "POST /v1/claims/{id}/sync", "Upload a claim's state as a snapshot now"), a.sync)
	handle(a, op("list-memory", "GET /v1/claims/{id}/memory", "List the keys of a claim's memory"), a.listMemory)
	handle(a, op("get-memory", "GET /v1/claims/{id}"+keyPath, "Read a value of a claim's memory"), a.getMemory)
	handle(a, op("put-memory", "PUT /v1/claims/{id}"+keyPath, "Put a value into a claim's memory"), a.putMemory)
	handle(a, op("delete-memory", "DELETE /v1/claims/{id}"+keyPath, "Delete a value of a claim's memory"), a.deleteMemory)
	handle(a, op("get-file", "GET /v1/claims/{id}"+filePath, "Read a file or directory of a claim's container"), a.getFile)
	handle(a, op("put-file", "PUT /v1/claims/{id}"+filePath, "Write a file, or unpack an archive"), a.putFile)
	handle(a, op("delete-file", "DELETE /v1/claims/{id}"+filePath, "Remove a file or directory"), a.deleteFile)
	a.commandRoutes()
	a.portRoutes()
	handle(a, op("list-snapshots", "GET /v1/workloads/{id}/snapshots", "List a tenant's snapshots"), a.listSnapshots)
	handle(a, op("restore-snapshot", "POST /v1/workloads/{id}/snapshots/{snapshot}/restore", "Restore an older snapshot"), a.restore)
	a.archiveRoutes()

	handle(a, op("list-runs", "GET /v1/hook-runs", "List hook runs"), a.listRuns)
	handle(a, op("get-run", "GET /v1/hook-runs/{id}", "Show all attempts of a hook run"), a.getRun)
	handle(a, op("list-deliveries", "GET /v1/deliveries", "List deliveries of events to event hooks"), a.listDeliveries)
	handle(a, op("get-delivery", "GET /v1/deliveries/{id}", "Show a delivery"), a.getDelivery)
	handle(a, op("retry-delivery", "POST /v1/deliveries/{id}/retry", "Attempt a delivery again"), a.retryDelivery)
	handle(a, op("discard-delivery", "POST /v1/deliveries/{id}/discard", "Discard a delivery that waits"), a.discardDelivery)
	handle(a, op("replay-events", "POST /v1/workloads/{id}/event-hooks/{hook}/replay", "Deliver old events to an event hook again"), a.replay)
	handle(a, op("test-hooks", "POST /v1/workloads/{id}/hooks/test", "Show what hooks would do, and do nothing"), a.dryRun)
	handle(a, op("events", "GET /v1/events", "Read or follow the activity log"), a.events)
	handle(a, op("follow-events", "GET /v1/events/stream", "Follow the activity log"), a.followEvents)
	handle(a, op("publish-event", "POST /v1/events", "Publish an event of a claim's program"), a.publishEvent)

	a.keyRoutes()
	a.quotaRoutes()
	handle(a, op("doctor", "GET /v1/doctor", "Diagnose the installation"), a.examine)
	handle(a, op("healthz", "GET /healthz", "Report that the process is alive"), a.healthz)
	handle(a, op("readyz", "GET /readyz", "Report whether requests can be served"), a.readyz)
	a.handleRaw(op("metrics", "GET /metrics", "Metrics in the Prometheus text format"), "text/plain", a.o.Metrics)
	a.handleRaw(op("openapi", "GET /openapi.json", "This document"), "application/json", http.HandlerFunc(a.openapi))
}

// handle registers a route whose errors go through the table.
func handle[I, O any](a *API, o huma.Operation, serve func(context.Context, *I) (*O, error)) {
	serve = whileEngineResponds(a, o.OperationID, serve)
	o = a.documented(o)
	rule := a.rules[o.Method+" "+o.Path]
	rule.form = formOf[I]()
	a.rules[o.Method+" "+o.Path] = rule
	huma.Register(a.huma, o, func(ctx context.Context, in *I) (*O, error) {
		decoded(ctx)
		out, err := serve(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return out, nil
	})
}

// engineOperations are those that wait for an answer of a container, and whose work
// ends with their request. They end as well when the engine hangs.
var engineOperations = []string{
	"exec", "list-commands", "get-command", "end-command", "signal-command", "resize-command", "command-output", "ack-command", "command-input",
	"container-logs", "get-file", "put-file", "delete-file",
}

// whileEngineResponds returns the operation, whose context also ends when the engine
// does not respond.
func whileEngineResponds[I, O any](a *API, operation string, serve func(context.Context, *I) (*O, error)) func(context.Context, *I) (*O, error) {
	if a.o.EngineBound == nil || !slices.Contains(engineOperations, operation) {
		return serve
	}
	return func(ctx context.Context, in *I) (*O, error) {
		request := ctx
		ctx, end := a.o.EngineBound(ctx, time.Now())
		context.AfterFunc(request, end) // a response may still be written then
		out, err := serve(ctx, in)
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, runtime.ErrUnavailable) {
			err = cause // whatever the call has made of it
		}
		return out, err
	}
}

// handleRaw registers a route that writes its own response.
func (a *API) handleRaw(o huma.Operation, contentType string, h http.Handler) {
	if h == nil {
		return
	}
	o = a.documented(o)
	o.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{
		contentType: {Schema: &huma.Schema{}},
	}}
	a.huma.OpenAPI().AddOperation(&o)
	patternRecorder{a}.HandleFunc(o.Method+" "+o.Path, h.ServeHTTP)
}

// patternRecorder is the mux as huma sees it. It records the patterns, so that
// a test can compare them with the document.
type patternRecorder struct{ *API }

func (p patternRecorder) HandleFunc(pattern string, serve func(http.ResponseWriter, *http.Request)) {
	p.patterns = append(p.patterns, pattern)
	rule, ok := p.rules[pattern]
	if !ok {
		panic("api: no rule for " + pattern)
	}
	p.mux.HandleFunc(strings.NewReplacer(keyPath, keyPattern, filePath, filePattern).Replace(pattern), func(w http.ResponseWriter, r *http.Request) {
		markOperation(r.Context(), p.operations[pattern])
		rec := w.(*recorder) //nolint:forcetypeassert // the middleware serves with it
		r, refused := p.authorize(r, rule)
		if refused == nil {
			var b *body
			b, refused = p.readBody(rec, r, rule)
			defer b.count(0)
			r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
		}
		if refused != nil {
			rec.refuse(refused)
			return
		}
		serve(rec, r)
	})
}
