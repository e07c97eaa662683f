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

// synced returns the sync of a workload file whose state volume is /data, and
// which has another volume at /more.
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
	rt     *fake.Runtime
	bucket *snapshottest.Memory
	sink   *snapshot.Sink
	owner  snapshot.Owner
	fence  int64
}

func newHarness(t testing.TB, sync string) *harness {
	t.Helper()
	h := &harness{
		TB: t, rt: fake.New(), bucket: snapshottest.NewMemory(), fence: 1,
		owner: snapshot.Owner{Workload: "w", Tenant: "alice"},
	}
	h.apply(sync)
	return h
}

// apply changes the workload's sync.
func (h *harness) apply(sync string) { h.sink = snapshot.New(h.bucket, synced(h.TB, sync)) }

// container creates a container of the workload, with files.
func (h *harness) container(files ...file) string {
	h.Helper()
	id := runtimetest.NewID()
	require.NoError(h, h.rt.Create(h.Context(), runtime.Spec{
		ID: id, Command: []string{fake.TestprogPath, "idle"},
		Volumes: []runtime.Volume{{Name: "state", Target: "/data"}, {Name: "more", Target: "/more"}},
	}))
	require.NoError(h, h.rt.Start(h.Context(), id, 1))
	h.put(id, "/data", files...)
	return id
}

func (h *harness) put(id, dir string, files ...file) {
	h.Helper()
	require.NoError(h, h.rt.CopyIn(h.Context(), id, dir, 0, bytes.NewReader(pack(h, files...))))
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

// has returns the contents of a directory in a container, directories with a
// trailing slash and links with an arrow.
func (h *harness) has(id, dir string) map[string]string {
	h.Helper()
	out := map[string]string{}
	r, err := h.rt.CopyOut(h.Context(), id, dir)
	if errors.Is(err, runtime.ErrFileNotFound) {
		return out
	}
	require.NoError(h, err)
	defer r.Close()
	in := tar.NewReader(r)
	for {
		hdr, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(h, err)
		body, err := io.ReadAll(in)
		require.NoError(h, err)
		if hdr.Typeflag == tar.TypeSymlink {
			body = []byte("-> " + hdr.Linkname)
		}
		out[hdr.Name] = fmt.Sprintf("%o %s", hdr.Mode, body)
		if hdr.Typeflag == tar.TypeDir {
			out[hdr.Name] = fmt.Sprintf("%o", hdr.Mode)
		}
	}
}

func (h *harness) origin(container string) snapshot.Origin {
	return snapshot.Origin{
		Owner: h.owner, Revision: "rev", Claim: "claim", Container: container, Fence: h.fence, Reason: "release",
	}
}

func (h *harness) upload(container string) snapshot.Transfer {
	h.Helper()
	t, err := h.sink.Upload(h.Context(), h.rt, h.origin(container))
	require.NoError(h, err)
	return t
}

// download downloads into a new container.
func (h *harness) download() (string, snapshot.Transfer) {
	h.Helper()
	id := h.container()
	t, err := h.sink.Download(h.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: id})
	require.NoError(h, err)
	return id, t
}

// kept returns the contents of files below /data after a download into a new
// container.
func (h *harness) kept() map[string]string {
	h.Helper()
	id, _ := h.download()
	out := h.has(id, "/data")
	for name, is := range out {
		if !strings.HasSuffix(name, "/") {
			_, out[name], _ = strings.Cut(is, " ")
		}
	}
	return out
}
