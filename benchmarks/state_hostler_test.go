package benchmarks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/s3test"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// stateSink is where state is kept: a directory of this machine, or a bucket of
// the S3 server of the tests, which keeps its objects in a directory.
type stateSink struct {
	dir      string // what is stored is below it
	endpoint string // of the S3 server; empty for a directory
}

// newStateSink starts what the sink needs.
func newStateSink(b *testing.B, kind string) stateSink {
	b.Helper()
	dir := benchDirectory(b)
	if kind == "dir" {
		return stateSink{dir: filepath.Join(dir, "sink")}
	}
	return stateSink{filepath.Join(dir, "s3", s3test.Bucket), "http://" + s3test.StartIn(b, dir)}
}

// stateServer is a server that keeps state of tenants.
type stateServer struct {
	startedServer
	label string
	sink  stateSink
	data  string // its data directory
	// onDocker is set when its containers are Docker's.
	onDocker bool
}

// stateTenant is a tenant with an active claim.
type stateTenant struct {
	*stateServer
	id     string
	claim  client.Claim
	dir    string        // its volume, as this machine sees it
	synced time.Duration // the server's own time of the last transfer
}

// startStateServer starts a build on the backend that HOSTLER_BENCH_BACKEND
// names, by default on the process backend.
func startStateServer(b *testing.B, label, path string, sink stateSink) *stateServer {
	b.Helper()
	s := &stateServer{label: label, sink: sink, data: benchDirectory(b), onDocker: stateBackend() == "docker"}
	b.Setenv("HOSTLER_SINK_S3", "aws_access_key_id="+s3test.Key+"\naws_secret_access_key="+s3test.Secret)
	backend, container, box := "process", "none", filepath.Join(s.data, "box")
	if s.onDocker {
		backend, box = "docker", "/box"
		_, container = connectDocker(b)
	} else {
		program, err := os.ReadFile(runtimetest.BuildTestprog(b))
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(box, program, 0o755))
	}
	flags := []string{"--runtime", backend, "--data", s.data}
	config := fmt.Sprintf(`{ type: s3, bucket: %s, region: us-east-1, endpoint: "%s", credentials: { env: HOSTLER_SINK_S3 } }`, s3test.Bucket, sink.endpoint)
	if sink.endpoint == "" {
		require.NoError(b, os.MkdirAll(sink.dir, 0o700))
		flags = append(flags, "--state-dir", sink.dir)
		config = "{ type: file }"
	}
	s.startedServer = startServer(b, path, flags...)
	_, err := s.Apply(b.Context(), "kept", fmt.Appendf(nil, `
id: kept
image: %s
command: [%s, idle]
volumes: { state: { target: /state } }
pool: { min_idle: 1, max_size: 3, reuse: same_tenant }
sync: { sink: %s, keep: 4, max_size: 64g, max_files: 2000000 }
deploy: { resources: { limits: { cpus: 2, memory: 1g } } }
`, container, box, config))
	require.NoError(b, err)
	b.Cleanup(func() { s.removeContainers(b) })
	return s
}

// removeContainers destroys all containers, also those that a failed benchmark
// has claims on.
func (s *stateServer) removeContainers(b *testing.B) {
	b.Helper()
	_, err := s.Drain(context.Background(), "kept")
	require.NoError(b, err)
	all, err := s.Containers(context.Background(), client.ContainerFilter{Workload: "kept"})
	require.NoError(b, err)
	for _, c := range all {
		// One that is being destroyed may be gone.
		_, _ = s.DestroyContainerNow(context.Background(), c.ID, true)
	}
	awaitIdle(b, s.Client, "kept", 0)
}

// newStateTenant claims for a new tenant.
func newStateTenant(b *testing.B, s *stateServer) *stateTenant {
	b.Helper()
	t := &stateTenant{stateServer: s, id: "t-" + uuid.NewString()}
	t.take(b, client.SourceFresh)
	return t
}

// take claims, and checks where the container is from, unless that is empty.
func (t *stateTenant) take(b *testing.B, from client.Source) time.Duration {
	b.Helper()
	awaitIdle(b, t.Client, "kept", 1)
	syncDisks()
	start := time.Now()
	got, _, err := t.Claim(b.Context(), "kept", t.id, 0)
	took := time.Since(start)
	require.NoError(b, err)
	if from != "" {
		require.Equal(b, from, got.Source)
	}
	t.claim, t.dir = got, t.volume(b, got.Container)
	t.synced = t.transferTime(b)
	return took
}

// release releases the claim, with the upload.
func (t *stateTenant) release(b *testing.B) time.Duration {
	b.Helper()
	syncDisks()
	start := time.Now()
	got, err := t.Release(b.Context(), t.claim.ID, false)
	took := time.Since(start)
	require.NoError(b, err)
	require.Equal(b, client.ClaimReleased, got.State, got.Reason)
	t.synced = t.transferTime(b)
	return took
}

// transferTime returns the server's own time of the claim's last transfer, or 0
// without one.
func (t *stateTenant) transferTime(b *testing.B) time.Duration {
	b.Helper()
	q := client.EventQuery{EventFilter: client.EventFilter{Types: []client.EventType{client.EventSyncCompleted}, Claim: t.claim.ID}}
	page, err := t.Events(b.Context(), q, 100)
	require.NoError(b, err)
	if len(page.Items) == 0 {
		return 0
	}
	var data struct {
		Duration float64 `json:"duration_ms"`
	}
	require.NoError(b, json.Unmarshal(page.Items[len(page.Items)-1].Data, &data))
	return time.Duration(data.Duration * float64(time.Millisecond))
}

// volume returns the directory of this machine with a container's state volume.
func (s *stateServer) volume(b *testing.B, container string) string {
	b.Helper()
	if !s.onDocker {
		return filepath.Join(s.data, "process", "containers", container, "root", "state")
	}
	const format = `{{range .Mounts}}{{if eq .Destination "/state"}}{{.Source}}{{end}}{{end}}`
	out, err := exec.CommandContext(b.Context(), "docker", "inspect", "-f", format, "hostler-"+container).Output()
	require.NoError(b, err)
	return strings.TrimSpace(string(out))
}

// whyDestroyed returns the reason for which a container was destroyed.
func (s *stateServer) whyDestroyed(b *testing.B, container string) string {
	b.Helper()
	q := client.EventQuery{EventFilter: client.EventFilter{Types: []client.EventType{client.EventContainerDestroying}, Container: container}}
	page, err := s.Events(b.Context(), q, 1)
	require.NoError(b, err)
	require.Len(b, page.Items, 1)
	return page.Items[0].Message
}

// moveToNew destroys the container of a released claim, waits until it is gone, and
// claims again.
func (t *stateTenant) moveToNew(b *testing.B) time.Duration {
	b.Helper()
	_, err := t.DestroyContainerNow(b.Context(), t.claim.Container, false)
	require.NoError(b, err)
	require.Eventually(b, func() bool {
		c, err := t.Container(b.Context(), t.claim.Container)
		return err == nil && c.State == client.ContainerDestroyed
	}, time.Minute, 20*time.Millisecond, "the removal of its files is not a part of the download")
	return t.take(b, client.SourceFresh)
}

// end removes the tenant's container and state.
func (t *stateTenant) end(b *testing.B) {
	b.Helper()
	_, err := t.Release(b.Context(), t.claim.ID, true)
	require.NoError(b, err)
	require.NoError(b, os.RemoveAll(t.stored()))
}

// stored returns the directory with all that is stored of the tenant.
func (t *stateTenant) stored() string { return filepath.Join(t.sink.dir, "tenants", t.id) }
