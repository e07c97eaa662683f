package soak

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// shortSoak is how long it lasts when SOAK does not say.
const shortSoak = 20 * time.Second

// waitTimeout bounds whatever is waited for. It is above the longest pause that a
// pool makes before it tries again what failed.
const waitTimeout = 100 * time.Second

// serverTimeout bounds the start of a server, and a client's retries while no
// server or no engine answers. It is far above what one of these takes: a
// server that is killed every 20 s starts to count again each time for how long
// a container has not answered.
const serverTimeout = 5 * time.Minute

// clientCount is how many tenants there are at any time: more than containers.
const clientCount = 14

// soak is what everybody in it shares.
type soak struct {
	engine           *engine
	proxy            *proxy
	server           *server
	rt               *docker.Runtime // of the same instance, past the link
	instance         string
	testprog         string // the program, by a name that nobody else has
	image            string
	workloads        []*workload
	classes          map[string]string // of attacks
	counters         counters
	onlyTenantFaults atomic.Bool    // there is no trouble but what tenants make
	visits           map[string]int // what honest tenants had counted, by claim

	mu      sync.Mutex        // guards what follows
	holders map[string]string // tenants by their containers
	honest  honest
}

// workload is one of the few that tenants claim.
type workload struct {
	id, file   string
	minIdle    int
	attacked   bool     // its tenants attack
	maxHold    int      // for how many milliseconds a tenant stays, at most
	check      []string // its health check
	tenants    *tenantPool
	generation int // changed by one goroutine only
}

// Tenants that behave in every bad way, hostile ones among them, on containers
// that die, a server that is killed and a connection that breaks, leave nothing
// behind and never meet.
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
	t.Logf("after a quarter: %s; after three: %s; at the end: %s", early, middle, end)
	s.requireHealthy(t)
	s.drain(t)
	s.requireNothingLeft(t)
	s.server.stop(t)
	db := s.server.open(t)
	defer db.Close()
	s.requireLog(t, db)
	s.requireRuns(t, db)
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

// newSoak makes an installation behind a link that can be cut.
func newSoak(t *testing.T, random *rand.Rand) *soak {
	t.Helper()
	e := requireEngine(t)
	name := "soak-" + uuid.NewString()[:8]
	s := &soak{
		engine: e, proxy: newProxy(t, e), instance: name, testprog: "guest-" + name, image: name + "/guest:latest",
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

// attackedImage is the image of the attacks whose program belongs to a user.
func (s *soak) attackedImage(user int) string {
	return fmt.Sprintf("%s/attacked:latest-%d", s.instance, user)
}

// workload is that of an id.
func (s *soak) workload(id string) *workload {
	return s.workloads[slices.IndexFunc(s.workloads, func(w *workload) bool { return w.id == id })]
}

// rootfs is the image of the containers: nothing but our program.
func (s *soak) rootfs(t *testing.T) *bytes.Buffer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "./testdata/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := build.CombinedOutput()
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

// How long hooks may take that a tenant or an end can hold up.
const (
	actTimeout  = 2 * time.Second
	goneTimeout = 5 * time.Second
)

// file is what the workloads have in common. Ten containers at most are there
// at any time, in all.
const file = `
id: ID
image: IMAGE
command: [/GUEST, main]
environment: { GENERATION: "NUMBER" }
deploy: { resources: { limits: { memory: 64m, pids: 100 } } }
healthcheck: { test: [CMD, /GUEST, check], interval: 5s, timeout: 4s, retries: 3, start_period: 5s }
volumes: { state: { target: /state } }
hooks:
  post_create: [{ name: made, command: [/GUEST, check] }]
  post_claim:
    - { name: look, command: [/GUEST, look] }
    - { name: act, command: [/GUEST, act], timeout: ACT_TIME, POLICY }
  pre_release:
    - { name: look, command: [/GUEST, look] }
    - { name: act, command: [/GUEST, act], timeout: ACT_TIME, POLICY }
  pre_destroy: [{ name: gone, command: [/GUEST, check], timeout: GONE_TIME }]
`

// reuseWorkloads are one of each kind of reuse, with another policy each.
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

// apply applies a workload's present generation.
func (s *soak) apply(w *workload) error {
	image := s.image
	if w.attacked {
		image = s.instance + "/attacked:latest"
	}
	text := strings.NewReplacer("IMAGE", image, "GUEST", s.testprog, "NUMBER", strconv.Itoa(w.generation),
		"ACT_TIME", actTimeout.String(), "GONE_TIME", goneTimeout.String()).Replace(w.file)
	ctx := context.Background()
	_, err := call(ctx, s.server, func(at *client.Client) (client.AppliedWorkload, error) { return at.Apply(ctx, w.id, []byte(text)) })
	if err != nil && codeOf(err) != client.CodeEngineUnavailable {
		return fmt.Errorf("apply %s: %w", w.id, err)
	}
	return nil
}

// runFor lets tenants come and trouble happen for so long.
func (s *soak) runFor(t *testing.T, length time.Duration, random *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for range clientCount {
		// Its own source, or who draws first would depend on the machine.
		own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		g.Go(func() error { return s.runClient(ctx, own) })
	}
	own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
	if !s.onlyTenantFaults.Load() {
		g.Go(func() error { return s.runDisruptions(ctx, own) })
	}
	require.NoError(t, g.Wait())
}
