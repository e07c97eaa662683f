package snapshot_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
)

// readRange returns the bytes of a range, as far as they can be read.
func readRange(t *testing.T, b snapshot.Bucket, key string, offset, size int64) (string, error) {
	t.Helper()
	r, err := b.GetRange(t.Context(), key, offset, size)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

// isRead reports whether a request reads an object.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet && !isList(r) }

// A service that does not know ranges, and answers with the whole object, is an
// error, unless the range begins where the object does. Never are other bytes
// returned.
func TestCloudsWithoutRanges(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		b := c.bucket("bucket")
		require.NoError(t, b.Create(t.Context(), "x", []byte("0123456789")))
		c.way.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !isRead(r) {
				return false
			}
			w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 12:00:00 GMT")
			_, _ = io.WriteString(w, "0123456789")
			return true
		})
		got, err := readRange(t, b, "x", 0, 4)
		require.NoError(t, err)
		require.Equal(t, "0123", got)
		_, err = readRange(t, b, "x", 0, 11)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		for _, offset := range []int64{1, 9, 20} {
			_, err = readRange(t, b, "x", offset, 1)
			require.Error(t, err)
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
			require.NotErrorIs(t, err, snapshot.ErrNoObject)
		}
	})
}

// An answer that ends early, or has another range, is an error, and not that of
// an object which has too few bytes.
func TestCloudsRangeCut(t *testing.T) {
	const text = "0123456789"
	answers := map[string]func(w http.ResponseWriter){
		"fewer bytes than the range": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 2-4/10")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, text[2:5])
		},
		"a connection that is cut": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 2-7/10")
			w.Header().Set("Content-Length", "6")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, text[2:5])
			http.NewResponseController(w).Flush() //nolint:errcheck // the client sees it
			panic(http.ErrAbortHandler)
		},
		"another range": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 3-8/10")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, text[3:9])
		},
		"no range": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "items 2-7/10")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, text[2:8])
		},
		"a range without its name": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, text[2:8])
		},
	}
	eachCloud(t, func(t *testing.T, c *cloud) {
		b := c.bucket("bucket")
		require.NoError(t, b.Create(t.Context(), "x", []byte(text)))
		for what, answer := range answers {
			var answered atomic.Bool
			c.way.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
				if !isRead(r) {
					return false
				}
				w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 12:00:00 GMT")
				if asked := r.Header.Get("Range") + r.Header.Get("X-Ms-Range"); asked != "bytes=2-7" {
					c.denied(w, r) // Google's client asks for the rest
					return true
				}
				answered.Store(true)
				answer(w)
				return true
			})
			got, err := readRange(t, b, "x", 2, 6)
			require.Error(t, err, "%s: %q", what, got)
			require.True(t, answered.Load(), what)
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF, what)
			require.NotErrorIs(t, err, snapshot.ErrNoObject, what)
		}
	})
}

// More bytes than the range are not returned, also when the object's size is
// unknown.
func TestCloudsRangeLonger(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		b := c.bucket("bucket")
		require.NoError(t, b.Create(t.Context(), "x", []byte("0123456789")))
		c.way.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !isRead(r) {
				return false
			}
			w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 12:00:00 GMT")
			w.Header().Set("Content-Range", "bytes 2-9/10")
			w.Header().Set("Content-Length", strconv.Itoa(8))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "23456789")
			return true
		})
		got, err := readRange(t, b, "x", 2, 3)
		require.NoError(t, err)
		require.Equal(t, "234", got)
	})
}

// An object that does not exist is not one with too few bytes. The range of one
// that exists is one request.
func TestCloudsRangeMissing(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		b := c.bucket("bucket")
		_, err := readRange(t, b, "none", 0, 1)
		require.ErrorIs(t, err, snapshot.ErrNoObject)
		require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, b.Create(t.Context(), "x", []byte("0123")))
		var reads atomic.Int32
		c.way.setIntercept(func(http.ResponseWriter, *http.Request) bool { reads.Add(1); return false })
		got, err := readRange(t, b, "x", 1, 2)
		require.NoError(t, err)
		require.Equal(t, "12", got)
		require.Equal(t, int32(1), reads.Load())
	})
}

// A file that is cut while it is read is an error, and neither a link nor a
// directory is an object.
func TestDirRange(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "state")
	b := openDirBucket(t, at)
	require.NoError(t, b.Put(t.Context(), "d/x", strings.NewReader(strings.Repeat("x", 1000))))
	r, err := b.GetRange(t.Context(), "d/x", 10, 990)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(at, "d", "x"), 100))
	data, err := io.ReadAll(r)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Len(t, data, 90)
	require.NoError(t, r.Close())
	require.NoError(t, os.Symlink("../../secret", filepath.Join(at, "d", "link")))
	for _, key := range []string{"d/link", "../secret"} {
		_, err = readRange(t, b, key, 0, 1)
		require.Error(t, err, key)
	}
	_, err = readRange(t, b, "d", 0, 1)
	require.ErrorIs(t, err, snapshot.ErrNoObject)
}
