package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// An archive of which a part was lost in transit never counts as complete, and
// files that are not known to exist are never reported as existing. SPDY shows
// the end of a broken connection as that of a successful program, and it is
// always the protocol between the API server and the node.
func TestTruncatedArchives(t *testing.T) {
	t.Parallel()
	f, rt := newAPIProxy(t)
	f.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/exec") && r.Method == http.MethodGet && respond(w, http.StatusForbidden)
	})
	id := startContainer(t, rt)
	content := filesArchive(t, 64)
	require.NoError(t, rt.CopyIn(t.Context(), id, "/data", 0, bytes.NewReader(content)))

	files, err := rt.CopyOut(t.Context(), id, "/data")
	require.NoError(t, err)
	defer files.Close()
	f.disconnect()
	_, err = io.Copy(io.Discard, files)
	require.ErrorIs(t, err, runtime.ErrUnavailable, "GetFiles")

	err = rt.CopyIn(t.Context(), id, "/data", 0, io.MultiReader(bytes.NewReader(filesArchive(t, 1)), onEOF(f.disconnect)))
	require.ErrorIs(t, err, runtime.ErrUnavailable, "PutFiles")
}

// filesArchive packs that many files of a megabyte.
func filesArchive(t *testing.T, count int) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for i := range count {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: fmt.Sprint("file", i), Mode: 0o644, Size: 1 << 20}))
		_, err := w.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return archive.Bytes()
}

// onEOF is an empty reader that calls a function when it is read.
type onEOF func()

func (f onEOF) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
