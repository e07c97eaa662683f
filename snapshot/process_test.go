package snapshot_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/process"
	"github.com/hostler/hostler/runtime/runtimetest"
	"github.com/hostler/hostler/snapshot"
)

// processHarness has containers that are processes of this machine, packed and
// unpacked by the program that does it in every real container, and a sink in a
// directory.
type processHarness struct {
	testing.TB
	dir  string
	rt   *process.Runtime
	sink *snapshot.Sink
}

func newProcessHarness(t testing.TB) *processHarness {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostler-snapshot-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	rt, err := process.New(process.Options{Dir: filepath.Join(dir, "rt"), ShimPath: runtimetest.BuildShim(t), Secret: []byte("secret")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	sinks := snapshot.NewSinks(snapshot.PathPolicy{State: filepath.Join(dir, "state")}, nil)
	t.Cleanup(func() { require.NoError(t, sinks.Close()) })
	sink, err := sinks.Open(t.Context(), synced(t, ""))
	require.NoError(t, err)
	return &processHarness{t, dir, rt, sink}
}

// container returns a new container, and the directory of its state.
func (m *processHarness) container() (string, string) {
	m.Helper()
	id := runtimetest.NewID()
	require.NoError(m, m.rt.Create(m.Context(), runtime.Spec{
		ID: id, Command: []string{runtimetest.BuildTestprog(m), "idle"}, Volumes: []runtime.Volume{{Name: "state", Target: "/data"}},
	}))
	require.NoError(m, m.rt.Start(m.Context(), id, 1))
	ctx := context.WithoutCancel(m.Context())
	m.Cleanup(func() { require.NoError(m, m.rt.Destroy(ctx, id)) })
	return id, filepath.Join(m.dir, "rt", "containers", id, "root", "data")
}

func (m *processHarness) owner() snapshot.Owner {
	return snapshot.Owner{Workload: "w", Tenant: "alice"}
}

func (m *processHarness) upload(id string) snapshot.Transfer {
	m.Helper()
	t, err := m.sink.Upload(m.Context(), m.rt, snapshot.Origin{Owner: m.owner(), Container: id, Fence: 1})
	require.NoError(m, err)
	return t
}

func (m *processHarness) download(id string) snapshot.Transfer {
	m.Helper()
	t, err := m.sink.Download(m.Context(), m.rt, snapshot.Destination{Owner: m.owner(), Container: id})
	require.NoError(m, err)
	return t
}

// Real files, packed and unpacked by the real program: links, hard links,
// sockets, pipes, holes, times, read-only directories; and many files.
func TestRealFilesRoundTrip(t *testing.T) {
	t.Parallel()
	m := newProcessHarness(t)
	id, dir := m.container()
	write := func(name, body string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(body), mode))
	}
	many := 3000
	if !testenv.IsFull() {
		many = 400
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "many"), 0o755))
	for i := range many {
		write(fmt.Sprintf("many/%04d", i), fmt.Sprint(i), 0o644)
	}
	write("a", "text", 0o640)
	when := time.Unix(1700000000, 123456789)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a"), when, when))
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "hard")))
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(dir, "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "sock"))
	require.NoError(t, err)
	defer l.Close()
	write("holes", "", 0o600)
	require.NoError(t, os.Truncate(filepath.Join(dir, "holes"), 20<<20))
	write("line\nbreak\xff", "odd", 0o600)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "closed"), 0o700))
	write("closed/in", "x", 0o400)
	require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0o500))

	up := m.upload(id)
	require.Equal(t, many+8, up.Files)
	require.Less(t, up.Sent, int64(200_000), "holes are not stored")
	// What was written a moment before the first upload has no stamp in its list.
	for m.upload(id).MovedFiles >= many/8 {
		<-time.After(time.Second)
	}
	to, back := m.container()
	require.Equal(t, up.Files, m.download(to).Files)
	for name, body := range map[string]string{"a": "text", "hard": "text", "line\nbreak\xff": "odd", "closed/in": "x", fmt.Sprintf("many/%04d", many-1): fmt.Sprint(many - 1)} {
		got, err := os.ReadFile(filepath.Join(back, name))
		require.NoError(t, err)
		require.Equal(t, body, string(got))
	}
	info, err := os.Lstat(filepath.Join(back, "a"))
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(when), info.ModTime())
	require.Equal(t, os.FileMode(0o640), info.Mode())
	require.NoFileExists(t, filepath.Join(back, "sock"))
	require.True(t, m.upload(to).Unchanged, "the downloaded state is the uploaded one")
	require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(back, "closed"), 0o700))
}

// Memory does not grow with the state: hundreds of megabytes need only a few.
func TestConstantMemory(t *testing.T) {
	testenv.FullOnly(t, "memory", "measures the memory of its process")
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is not garbage counts
	m := newProcessHarness(t)
	id, dir := m.container()
	writeLarge(t, filepath.Join(dir, "large"))
	peak := watchHeap(t, func() { m.upload(id) })
	require.Less(t, peak, uint64(64<<20), "of the upload")
	to, _ := m.container()
	peak = watchHeap(t, func() { m.download(to) })
	require.Less(t, peak, uint64(64<<20), "of the download")
}

// writeLarge writes 256 MiB.
func writeLarge(t testing.TB, name string) {
	t.Helper()
	part := strings.Repeat(incompressible(1<<20), 8)
	f, err := os.Create(name)
	require.NoError(t, err)
	for range 32 {
		_, err := f.WriteString(part)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}

// watchHeap returns the maximum growth of the heap in use while f runs.
func watchHeap(t testing.TB, f func()) uint64 {
	t.Helper()
	var before, now goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&before)
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			select {
			case <-done:
				peak <- most
				return
			case <-time.After(5 * time.Millisecond):
				goruntime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
	}()
	f()
	close(done)
	most := <-peak
	return most - min(most, before.HeapAlloc)
}
