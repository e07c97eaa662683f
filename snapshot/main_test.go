package snapshot_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/runtime/runtimetest"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// synced is the sync of a workload file whose state volume is /data, and which
// has another volume at /more.
func synced(t testing.TB, sync string) *workload.Sync {
	t.Helper()
	if sync == "" {
		sync = "{sink: {type: file}}"
	}
	w, err := workload.Parse([]byte("id: w\nimage: i\nvolumes: {state: {target: /data}, custom: [{name: more, target: /more}]}\nsync: "+sync), "w.yaml")
	require.NoError(t, err)
	return w.Sync
}

// harness is a bucket and containers to fill.
type harness struct {
	testing.TB
	rt     runtime.Runtime
	bucket *snapshottest.Memory
	sink   *snapshot.Sink
	owner  snapshot.Owner
	fence  int64
}

func newHarness(t testing.TB, sync string) *harness {
	t.Helper()
	y := &harness{
		TB: t, rt: fake.New(), bucket: snapshottest.NewMemory(), fence: 1,
		owner: snapshot.Owner{Workload: "w", Tenant: "alice"},
	}
	y.apply(sync)
	return y
}

// apply changes the workload's sync.
func (y *harness) apply(sync string) { y.sink = snapshot.New(y.bucket, synced(y.TB, sync)) }

// container is a new container of the workload, with files.
func (y *harness) container(files ...file) string {
	y.Helper()
	id := runtimetest.NewID()
	require.NoError(y, y.rt.Create(y.Context(), runtime.Spec{
		ID: id, Command: []string{fake.TestprogPath, "idle"},
		Volumes: []runtime.Volume{{Name: "state", Target: "/data"}, {Name: "more", Target: "/more"}},
	}))
	require.NoError(y, y.rt.Start(y.Context(), id))
	y.put(id, "/data", files...)
	return id
}

func (y *harness) put(id, dir string, files ...file) {
	y.Helper()
	require.NoError(y, y.rt.CopyIn(y.Context(), id, dir, bytes.NewReader(pack(y, files...))))
}

// file is one entry of an archive.
type file struct {
	name string
	kind byte
	mode int64
	body string // or the target of a link
}

func reg(name, body string) file { return file{name, tar.TypeReg, 0o644, body} }
func dir(name string) file       { return file{name, tar.TypeDir, 0o755, ""} }
func link(name, to string) file  { return file{name, tar.TypeSymlink, 0o777, to} }

// pack makes an archive.
func pack(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Mode: f.mode, ModTime: time.Unix(1700000000, 0), Format: tar.FormatPAX}
		if f.kind == tar.TypeSymlink || f.kind == tar.TypeLink {
			h.Linkname = f.body
		} else {
			h.Size = int64(len(f.body))
		}
		require.NoError(t, w.WriteHeader(h))
		if f.kind == tar.TypeReg {
			_, err := io.WriteString(w, f.body)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// has says what a folder of a container holds, folders with a slash at the end
// and links with an arrow.
func (y *harness) has(id, dir string) map[string]string {
	y.Helper()
	out := map[string]string{}
	r, err := y.rt.CopyOut(y.Context(), id, dir)
	if errors.Is(err, runtime.ErrFileNotFound) {
		return out
	}
	require.NoError(y, err)
	defer r.Close()
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(y, err)
		body, err := io.ReadAll(in)
		require.NoError(y, err)
		if h.Typeflag == tar.TypeSymlink {
			body = []byte("-> " + h.Linkname)
		}
		out[h.Name] = fmt.Sprintf("%o %s", h.Mode, body)
		if h.Typeflag == tar.TypeDir {
			out[h.Name] = fmt.Sprintf("%o", h.Mode)
		}
	}
}

func (y *harness) origin(container string) snapshot.Origin {
	return snapshot.Origin{
		Owner: y.owner, Revision: "rev", Claim: "claim", Container: container, Fence: y.fence, Reason: "release",
	}
}

func (y *harness) upload(container string) snapshot.Transfer {
	y.Helper()
	t, err := y.sink.Upload(y.Context(), y.rt, y.origin(container))
	require.NoError(y, err)
	return t
}

// download fills a new container.
func (y *harness) download() (string, snapshot.Transfer) {
	y.Helper()
	id := y.container()
	t, err := y.sink.Download(y.Context(), y.rt, snapshot.Destination{Owner: y.owner, Container: id})
	require.NoError(y, err)
	return id, t
}

// kept are the contents of files below /data after a download into a new
// container.
func (y *harness) kept() map[string]string {
	y.Helper()
	id, _ := y.download()
	out := y.has(id, "/data")
	for name, is := range out {
		if !strings.HasSuffix(name, "/") {
			_, out[name], _ = strings.Cut(is, " ")
		}
	}
	return out
}
