package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/s3test"
	"github.com/hostler/hostler/internal/testenv"
)

// bucketServer is a real S3 server behind a proxy.
type bucketServer struct {
	proxy *httptest.Server
	calls atomic.Int64
	// failEvery, when positive, makes every n-th call fail like one to an
	// overloaded service.
	failEvery atomic.Int64
	// onPut, when set, is called when an object of more than 1 MiB is uploaded.
	onPut atomic.Pointer[func()]
	// onGet, when set, is called when more than 1 MiB of an object is read.
	onGet atomic.Pointer[func()]
}

// serveBucket starts the server that `make s3-tool` builds, or skips the test.
func serveBucket(t *testing.T) *bucketServer {
	t.Helper()
	b := &bucketServer{}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s3test.Start(t)})
	b.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := b.failEvery.Load(); n > 0 && b.calls.Add(1)%n == 0 {
			http.Error(w, "slow down", http.StatusServiceUnavailable)
			return
		}
		if call := b.onPut.Load(); call != nil && r.Method == http.MethodPut && r.ContentLength > 1<<20 {
			(*call)()
		}
		if call := b.onGet.Load(); call != nil && r.Method == http.MethodGet && isLargeRange(r) {
			(*call)()
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(b.proxy.Close)
	return b
}

// file returns a workload file whose tenants' state is kept in the bucket.
func (b *bucketServer) file() string {
	return fmt.Sprintf(`
pool: { min_idle: 4, max_size: 12, reuse: never }
sync:
  sink: { type: s3, bucket: %s, region: us-east-1, endpoint: "%s", credentials: { env: HOSTLER_SINK_S3 } }
`, s3test.Bucket, b.proxy.URL)
}

// env returns the environment of the server, with the credentials.
func (b *bucketServer) env() string {
	return "HOSTLER_SINK_S3=aws_access_key_id=" + s3test.Key + "\naws_secret_access_key=" + s3test.Secret
}

// Many tenants find their state in other containers, also if every fifth call to
// the sink fails, and if a server is killed during an upload.
func TestStateOnS3(t *testing.T) {
	t.Parallel()
	forBackends(t, []backend{processBackend{}}, func(t *testing.T, rt backend) {
		b := serveBucket(t)
		s := install(t, rt)
		s.env = []string{b.env()}
		s.start()
		s.apply("kept", b.file())
		b.failEvery.Store(5)
		var g errgroup.Group
		g.SetLimit(10)
		for i := range tenants {
			g.Go(func() error { return s.moveState(fmt.Sprintf("tenant-%d", i)) })
		}
		require.NoError(t, g.Wait())
		require.NotContains(t, s.log.String(), s3test.Secret)
		for _, e := range s.events(client.EventFilter{Workload: "kept"}) {
			require.NotContains(t, e.Message+string(e.Data), s3test.Secret)
		}

		b.failEvery.Store(0)
		ada := s.claimAs("kept", "ada")
		ada.mustRun("bulk", "/state/bulk", "20", "x")
		sum := ada.mustRun("sum", "/state/bulk")
		killed := make(chan struct{})
		kill := func() {
			if b.onPut.Swap(nil) != nil {
				s.cmd.Process.Kill() //nolint:errcheck // it runs
				<-s.ended
				close(killed)
			}
		}
		b.onPut.Store(&kill)
		_, err := s.Release(t.Context(), ada.ID, false)
		require.Error(t, err, "the server is killed during the call")
		<-killed
		s.start()
		s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: ada.ID}, 1)
		again := s.claimAs("kept", "ada")
		require.NotEqual(t, ada.Container, again.Container)
		require.Equal(t, sum, again.mustRun("sum", "/state/bulk"))
		again.release()
		s.deleteWorkload("kept")
		s.requireEnds()
	})
}

// A server that gets SIGTERM during an upload that does not end does not wait for
// it: it exits with 0 before the deadline, and the next one uploads the whole
// state and finishes the release.
func TestStopDuringUpload(t *testing.T) {
	t.Parallel()
	forBackends(t, []backend{processBackend{}}, func(t *testing.T, rt backend) {
		b := serveBucket(t)
		s := install(t, rt)
		s.env = []string{b.env()}
		s.start()
		s.apply("kept", b.file())
		idle, ada := s.claimAs("kept", "idle"), s.claimAs("kept", "ada")
		sums := map[string]string{}
		for _, g := range []tenantSession{idle, ada} {
			g.mustRun("bulk", "/state/bulk", "8", g.Tenant)
			sums[g.Tenant] = g.mustRun("sum", "/state/bulk")
		}
		arrived, open := make(chan struct{}, 2), make(chan struct{})
		hang := func() { arrived <- struct{}{}; <-open }
		b.onPut.Store(&hang)
		var g errgroup.Group
		g.Go(func() error {
			_, err := s.Release(t.Context(), ada.ID, false)
			assert.ErrorContains(t, err, "the server is stopping")
			return nil
		})
		awaitUpload := func() { testenv.Await(t, arrived, "an upload starts") }
		awaitUpload()
		// The other claim is released because its tenant is idle.
		s.apply("kept", strings.Replace(b.file(), "reuse: never", "reuse: never, claim_idle_ttl: 1s", 1))
		awaitUpload()
		require.Zero(t, s.stopWith(syscall.SIGTERM))
		stopped, _, _ := s.log.find(func(l logLine) bool {
			return l.hasMessage("shutdown deadline exceeded; remaining work will be resumed")
		})
		require.Nil(t, stopped, "it ends by its own limits")
		require.NoError(t, g.Wait())
		b.onPut.Store(nil)
		close(open)
		s.start()
		s.apply("kept", b.file())
		for tenant, id := range map[string]string{"idle": idle.ID, "ada": ada.ID} {
			s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: id}, 1)
			all, err := s.Snapshots(t.Context(), "kept", tenant)
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.Equal(t, sums[tenant], s.claimAs("kept", tenant).mustRun("sum", "/state/bulk"))
		}
		require.Empty(t, s.events(client.EventFilter{Types: []client.EventType{client.EventClaimReleaseFailed}}))
		s.requireEngineMatchesRecords()
	})
}

// moveState claims for a tenant, writes, releases, claims again, and checks that
// the state is the same in another container.
func (s *server) moveState(tenant string) error {
	var sum, was string
	for round := range 2 {
		got, err := s.claimWithRetry(tenant)
		if err != nil {
			return err
		}
		g := tenantSession{s, got}
		if round == 0 {
			g.mustRun("bulk", "/state/bulk", "1", tenant)
			g.mustRun("append", "/state/note", tenant)
			sum, was = g.mustRun("sum", "/state/bulk"), got.Container
		} else if now := g.mustRun("sum", "/state/bulk"); now != sum || g.mustRun("read", "/state/note") != tenant || got.Container == was {
			return fmt.Errorf("%s left %s in %s and finds %s in %s", tenant, sum, was, now, got.Container)
		}
		// The server retries a failed release.
		if _, err := s.Release(s.t.Context(), got.ID, false); err != nil {
			f := client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: got.ID}
			s.awaitEvent(f, 1)
		}
	}
	return nil
}

// claimWithRetry claims, and retries errors of the sink.
func (s *server) claimWithRetry(tenant string) (client.Claim, error) {
	for tries := 1; ; tries++ {
		got, _, err := s.Claim(s.t.Context(), "kept", tenant, waitTimeout)
		if err == nil || tries == 10 {
			return got, err
		}
	}
}
