package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"
	"testing/synctest"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/shim"
)

// racedEngine fails copies, as an engine does to which another server copies the
// same files. After the last failure the volume is complete.
type racedEngine struct {
	content  []byte
	failures int
	copies   *int
}

func (e racedEngine) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	file := r.URL.Query().Get("path")
	modes := map[string]fs.FileMode{shim.BinaryPath: shim.FileMode, shim.AskBinaryPath: shim.AskFileMode}
	stat, _ := json.Marshal(container.PathStat{Mode: fs.ModeDir | volumeDirMode})
	answer.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(stat))
	switch {
	case r.Method == http.MethodPost:
		answer.WriteHeader(http.StatusCreated)
		_, _ = answer.WriteString(`{"Id": "helper"}`)
	case r.Method == http.MethodDelete:
		answer.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		*e.copies++
		answer.WriteHeader(http.StatusInternalServerError)
		_, _ = answer.WriteString(`{"message": "mkdir /.hostler/bin: file exists"}`)
	case *e.copies < e.failures:
		answer.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		_ = w.WriteHeader(&tar.Header{Name: path.Base(file), Mode: int64(modes[file]), Size: int64(len(e.content))})
		_, _ = w.Write(e.content)
		_ = w.Close()
		_, _ = answer.Write(archive.Bytes())
	}
	return answer.Result(), nil
}

// The engine fails some of the servers that copy the shim to one volume at the same
// moment. Each server waits until the volume is complete, and gives up after some attempts.
func TestShimCopyIsRepeated(t *testing.T) {
	t.Parallel()
	for failures, complete := range map[int]bool{1: true, copyShimAttempts: true, copyShimAttempts + 1: false} {
		synctest.Test(t, func(t *testing.T) {
			copies := 0
			content := []byte("the shim")
			api, err := client.NewClientWithOpts(client.WithVersion("1.41"),
				client.WithHTTPClient(&http.Client{Transport: racedEngine{content, failures, &copies}}))
			require.NoError(t, err)
			sum := sha256.Sum256(content)
			r := &Runtime{api: api, shim: shimBinary{content: content, hash: hex.EncodeToString(sum[:])}}
			err = r.populateShimVolume(t.Context(), "image")
			require.Equal(t, min(failures, copyShimAttempts), copies)
			if complete {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "file exists")
			}
		})
	}
}
