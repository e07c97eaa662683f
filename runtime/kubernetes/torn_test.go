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

// An archive of which a part was lost on the way is never taken for whole, and
// nobody is told that files are there of which nobody knows. SPDY shows the end
// of a broken connection as that of a program that went well; and between the
// API server and the node it is spoken in any case.
func TestTornArchives(t *testing.T) {
	t.Parallel()
	f, rt := newFront(t)
	f.will(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/exec") && r.Method == http.MethodGet && refuse(w, http.StatusForbidden)
	})
	id := up(t, rt)
	content := many(t, 64)
	require.NoError(t, rt.PutFiles(t.Context(), id, "/data", bytes.NewReader(content)))

	files, err := rt.GetFiles(t.Context(), id, "/data")
	require.NoError(t, err)
	defer files.Close()
	f.cut()
	_, err = io.Copy(io.Discard, files)
	require.ErrorIs(t, err, runtime.ErrUnavailable, "GetFiles")

	err = rt.PutFiles(t.Context(), id, "/data", io.MultiReader(bytes.NewReader(many(t, 1)), atEnd(f.cut)))
	require.ErrorIs(t, err, runtime.ErrUnavailable, "PutFiles")
}

// many packs as many files of a megabyte.
func many(t *testing.T, count int) []byte {
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

// atEnd is a reader that has nothing and does something when that is asked.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
