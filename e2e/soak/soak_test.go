package soak

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// shortSoak is the duration if SOAK is not set.
const shortSoak = 20 * time.Second

// waitTimeout is the timeout of every wait. It is above the maximum backoff of a
// pool.
const waitTimeout = 100 * time.Second

// serverTimeout is the timeout of the start of a server, and of a client's retries
// while the server or the engine is unavailable. It is long because a server that
// is killed every 20 s restarts the timeout of an unresponsive container each
// time.
const serverTimeout = 5 * time.Minute

// clientCount is the number of concurrent clients: more than containers.
const clientCount = 14

// soak is the shared state of a soak.
type soak struct {
	engine           *engine
	proxy            *proxy
	server           *server
	rt               *docker.Runtime // of the same instance, without the proxy
	instance         string
	testprog         string // unique name of the test program
	image            string
	workloads        []*workload
	classes          map[string]string // of attacks
	counters         counters
	onlyTenantFaults atomic.Bool    // there are no disruptions, only attacks
	visits           map[string]int // counts in honest tenants' state, by claim

	mu      sync.Mutex        // guards what follows
	holders map[string]string // tenants by their containers
	honest  honest
}

// workload is a workload of the soak.
type workload struct {
	id, file   string
	minIdle    int
	attacked   bool     // its tenants attack
	maxHold    int      // maximum time that a claim is held, in milliseconds
	check      []string // its health check
	tenants    *tenantPool
	generation int // changed by one goroutine only
}

// Misbehaving and hostile tenants leave nothing behind and never share a
// container, also when containers exit, the server is killed and connections
// break.
func TestSoak(t *testing.T) {
	length, seed := fromEnvironment(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newSoak(t, random)
	defer func() { t.Logf("SOAK=%s SOAK_SEED=%d:%s", length, seed, &s.counters) }()
	s.runFor(t, length/4, random)
	early := s.settle(t)
	s.runFor(t, length/2, random)
	middle := s.settle(t)
	s.onlyTenantFaults.Store(true)
	s.runFor(t, length/4, random)
	s.requireQuotaIsFair(t)
	end := s.settleFlat(t, early)
	t.Logf("after one quarter: %s; after three quarters: %s; at the end: %s", early, middle, end)
	s.requireHealthy(t)
	s.drain(t)
	s.requireNothingLeft(t)
	s.server.stop(t)
	db := s.server.open(t)
	defer db.Close()
	s.requireLog(t, db)
	s.requireRuns(t, db)
	s.requireNoPanic(t)
	s.requirePublished(t)
	s.requireState(t, s.visits)
	s.requireHonestServed(t)
	requireFlat(t, early, end)
}

func fromEnvironment(t *testing.T) (length time.Duration, seed uint64) {
	t.Helper()
	length, seed = shortSoak, rand.Uint64()
	var err error
	if text := os.Getenv("SOAK"); text != "" {
		length, err = time.ParseDuration(text)
		require.NoError(t, err, "SOAK")
	}
	if text := os.Getenv("SOAK_SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "SOAK_SEED")
	}
	t.Logf("SOAK=%s SOAK_SEED=%d", length, seed)
	return length, seed
}

// newSoak creates an installation whose engine is behind a proxy.
func newSoak(t *testing.T, random *rand.Rand) *soak {
	t.Helper()
	e := requireEngine(t)
	name := "soak-" + uuid.NewString()[:8]
	s := &soak{
		engine: e, proxy: newProxy(t, e), instance: name, testprog: "testprog-" + name, image: name + "/testprog:latest",
		classes: map[string]string{}, visits: map[string]int{}, holders: map[string]string{},
		honest: honest{visits: map[string][]honestVisit{}, slowest: map[string]time.Duration{}},
	}
	rt, err := docker.New(t.Context(), docker.Options{Instance: s.instance, Secret: secret, ShimPath: runtimetest.BuildShim(t)})
	require.NoError(t, err)
	s.rt = rt
	images := []string{s.image}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
		defer cancel()
		require.NoError(t, rt.Purge(ctx, images...))
		require.NoError(t, rt.Close())
	})
	require.NoError(t, rt.Import(t.Context(), s.image, s.rootfs(t)))
	for _, user := range []int{0, 1001} {
		images = append(images, s.attackedImage(user))
		require.NoError(t, rt.Import(t.Context(), s.attackedImage(user), bytes.NewReader(runtimetest.AttackedRootfs(t, user))))
	}
	s.server = newServer(t, s.instance, "unix://"+s.proxy.path)
	require.NoError(t, s.server.start())
	attacks := attackList(t)
	for _, a := range attacks {
		s.classes[a.Name] = a.Class
	}
	s.workloads = append(s.reuseWorkloads(random), attackedWorkloads(attacks, random)...)
	for _, w := range s.workloads {
		require.NoError(t, s.apply(w))
	}
	return s
}

// attackedImage returns the image of the attacks whose program belongs to a user.
func (s *soak) attackedImage(user int) string {
	return fmt.Sprintf("%s/attacked:latest-%d", s.instance, user)
}

// workload returns the workload with an id.
func (s *soak) workload(id string) *workload {
	return s.workloads[slices.IndexFunc(s.workloads, func(w *workload) bool { return w.id == id })]
}

// rootfs returns the root filesystem of the containers, with only the test program.
func (s *soak) rootfs(t *testing.T) *bytes.Buffer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testprog")
	out, err := testenv.GoBuild("-o", path, "./testdata/testprog").CombinedOutput()
	require.NoError(t, err, "%s", out)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var rootfs bytes.Buffer
	w := tar.NewWriter(&rootfs)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: s.testprog, Mode: 0o755, Size: int64(len(content))}))
	_, err = w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return &rootfs
}

// Timeouts of hooks that a tenant or a disruption can delay.
const (
	actTimeout  = 2 * time.Second
	goneTimeout = 5 * time.Second
)

// file is the common part of the workloads. They have at most ten containers in
// total.
const file = `
id: ID
image: IMAGE
command: [/TESTPROG, main]
environment: { GENERATION: "NUMBER" }
deploy: { resources: { limits: { memory: 64m, pids: 100 } } }
healthcheck: { test: [CMD, /TESTPROG, check], interval: 5s, timeout: 4s, retries: 3, start_period: 5s }
volumes: { state: { target: /state } }
hooks:
  post_create: [{ name: made, command: [/TESTPROG, check] }]
  post_claim:
    - { name: inspect, command: [/TESTPROG, inspect] }
    - { name: act, command: [/TESTPROG, act], timeout: ACT_TIME, POLICY }
  pre_release:
    - { name: inspect, command: [/TESTPROG, inspect] }
    - { name: act, command: [/TESTPROG, act], timeout: ACT_TIME, POLICY }
  pre_destroy: [{ name: gone, command: [/TESTPROG, check], timeout: GONE_TIME }]
`

// reuseWorkloads returns a workload for each kind of reuse, each with another
// on_error policy.
func (s *soak) reuseWorkloads(random *rand.Rand) []*workload {
	kinds := []struct {
		id, rest, policy string
		minIdle          int
	}{
		{"wiped", "pool: { min_idle: 1, max_size: 4, reuse: wipe, idle_timeout: 1s }\nread_only: true\nuser: '1000:1000'", "on_error: continue", 1},
		{"same", "pool: { min_idle: 1, max_size: 3, reuse: same_tenant, idle_timeout: 1s }", "on_error: retry, retries: 1", 1},
		{"never", "pool: { min_idle: 1, max_size: 3, reuse: never, idle_timeout: 1s }", "on_error: fail", 1},
	}
	var all []*workload
	for _, k := range kinds {
		text := strings.NewReplacer("ID", k.id, "POLICY", k.policy).Replace(file) + k.rest + "\n"
		all = append(all, &workload{
			id: k.id, file: text, minIdle: k.minIdle, maxHold: 500, check: []string{"/" + s.testprog, "check"},
			tenants: newTenantPool(clientCount+6, random, newTenantName),
		})
	}
	return all
}

// apply applies a workload's current generation.
func (s *soak) apply(w *workload) error {
	image := s.image
	if w.attacked {
		image = s.instance + "/attacked:latest"
	}
	text := strings.NewReplacer("IMAGE", image, "TESTPROG", s.testprog, "NUMBER", strconv.Itoa(w.generation),
		"ACT_TIME", actTimeout.String(), "GONE_TIME", goneTimeout.String()).Replace(w.file)
	ctx := context.Background()
	_, err := call(ctx, s.server, func(at *client.Client) (client.AppliedWorkload, error) { return at.Apply(ctx, w.id, []byte(text)) })
	if err != nil && codeOf(err) != client.CodeEngineUnavailable {
		return fmt.Errorf("apply %s: %w", w.id, err)
	}
	return nil
}

// runFor runs clients and disruptions for a duration.
func (s *soak) runFor(t *testing.T, length time.Duration, random *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for range clientCount {
		// A separate source each, so that the choices do not depend on scheduling.
		own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		g.Go(func() error { return s.runClient(ctx, own) })
	}
	own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
	if !s.onlyTenantFaults.Load() {
		g.Go(func() error { return s.runDisruptions(ctx, own) })
	}
	require.NoError(t, g.Wait())
}
