package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// The contract, with each provider's client and a test server.
func TestCloudsContract(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) { snapshottest.Run(t, c.bucket("bucket")) })
}

// Of twenty concurrent creations of one object, one succeeds, repeatedly, and
// the object has what that one wrote.
func TestCloudsConcurrentCreate(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		b := c.bucket("bucket")
		for round := range 5 {
			key := fmt.Sprintf("race/%d", round)
			var won atomic.Int32
			won.Store(-1)
			var g errgroup.Group
			for i := range 20 {
				g.Go(func() error {
					err := b.Create(t.Context(), key, fmt.Appendf(nil, "%d", i))
					if err == nil && !won.CompareAndSwap(-1, int32(i)) {
						return fmt.Errorf("%d and %d have both created %s", won.Load(), i, key)
					}
					if errors.Is(err, snapshot.ErrExists) {
						return nil
					}
					return err
				})
			}
			require.NoError(t, g.Wait())
			require.Equal(t, fmt.Sprint(won.Load()), contentOf(t, b, key))
		}
	})
}

// A tenant's state is restored completely, also in several parts, and older
// states can be restored.
func TestCloudsRoundTrip(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		h := c.harness("bucket")
		h.owner.Tenant = "Alice/../B@b"
		first := h.container(reg("small", "text"), reg("large", incompressible(30<<20)), link("l", "small"))
		require.Greater(t, h.upload(first).Sent, int64(30<<20))
		require.True(t, h.upload(first).Unchanged)
		back, _ := h.download()
		require.Equal(t, h.has(first, "/data"), h.has(back, "/data"))
		for i := range 5 {
			h.upload(h.container(reg("small", fmt.Sprint(i))))
		}
		list, err := h.sink.List(t.Context(), h.owner)
		require.NoError(t, err)
		require.Len(t, list, 3)
		_, err = h.sink.Restore(t.Context(), h.owner, list[2].ID)
		require.NoError(t, err)
		require.Equal(t, "2", h.kept()["small"])
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
	})
}

// Every object is listed once, over several pages.
func TestCloudsListPages(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		b := c.bucket("bucket")
		const objects = 1050 // clients request a thousand
		var g errgroup.Group
		g.SetLimit(8)
		for i := range objects {
			g.Go(func() error { return b.Create(t.Context(), fmt.Sprintf("pages/%d", i), nil) })
		}
		require.NoError(t, g.Wait())
		c.way.lists.Store(0)
		times := map[string]int{}
		require.NoError(t, b.List(t.Context(), "pages/", func(o snapshot.Object) error { times[o.Key]++; return nil }))
		require.Len(t, times, objects)
		for key, n := range times {
			require.Equal(t, 1, n, key)
		}
		require.Greater(t, c.way.lists.Load(), int32(1))
	})
}

// A creation whose answer is lost is retried, and the existing object is
// recognized as the caller's own. A client that does not retry when the
// connection is cut returns an error, and a repeated upload finds the object.
func TestCloudsLostCreateReply(t *testing.T) {
	later := func(w http.ResponseWriter) { http.Error(w, "later", http.StatusServiceUnavailable) }
	cut := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	eachCloud(t, func(t *testing.T, c *cloud) {
		h := c.harness("bucket")
		for what, instead := range map[string]func(http.ResponseWriter){"later": later, "cut": cut} {
			var lost atomic.Bool
			c.way.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
				if !isCreate(r) || lost.Swap(true) {
					return false
				}
				c.way.to.ServeHTTP(httptest.NewRecorder(), r)
				instead(w)
				return true
			})
			c.way.creates.Store(0)
			id := h.container(reg("f", what))
			_, err := h.sink.Upload(t.Context(), h.rt, h.origin(id))
			if what == "later" {
				require.NoError(t, err)
			}
			if err == nil {
				require.Equal(t, int32(2), c.way.creates.Load(), what)
			}
			require.True(t, lost.Load())
			require.Equal(t, what, h.kept()["f"])
			require.True(t, h.upload(id).Unchanged)
		}
	})
}

// A key that Google no longer accepts fails every call soon, and no error shows
// it.
func TestGCSRevokedKey(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`)
	}))
	t.Cleanup(s.Close)
	key, secret := serviceAccount(t, s.URL)
	c := withGoogleKey(t, nil, key)
	b := c.bucket("bucket")
	for name, call := range bucketCalls {
		err := call(t.Context(), b)
		require.ErrorContains(t, err, "invalid_grant", name)
		require.NotErrorIs(t, err, snapshot.ErrNoObject, name)
		require.NotContains(t, err.Error(), secret)
	}
}

// Amazon may answer that a concurrent creation is not yet decided. Then the
// call is retried and gets the result.
func TestS3CreateConflict(t *testing.T) {
	c := s3Cloud(t)
	b := c.bucket("bucket")
	answers := 0
	c.way.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
		if answers++; !isCreate(r) || answers%3 == 0 {
			return false
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, "<Error><Code>ConditionalRequestConflict</Code><Message>Try again.</Message></Error>")
		return true
	})
	require.NoError(t, b.Create(t.Context(), "x", []byte("first")))
	require.ErrorIs(t, b.Create(t.Context(), "x", []byte("second")), snapshot.ErrExists)
	require.Equal(t, 6, answers)
	require.Equal(t, "first", contentOf(t, b, "x"))
}

// No error shows a signature that is part of URLs, whatever its encoding.
func TestAzureSignature(t *testing.T) {
	const meant = "c2VjcmV0+that/noone/may/see="
	for _, sig := range []string{"c2VjcmV0%2Bthat%2Fnoone%2Fmay%2Fsee%3D", "c2VjcmV0%2bthat%2fnoone%2fmay%2fsee%3d", "c2VjcmV0%2Bthat/noone/may/see="} {
		var seen atomic.Value
		w := newProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen.Store(r.URL.Query().Get("sig"))
			azureError(w, http.StatusForbidden, "AuthorizationFailure")
		}))
		c := newCloud(t, w, "type: azure, account: "+azureAccount+", container: %s, credentials: {file: key}",
			"BlobEndpoint="+w.URL+"/"+azureAccount+";SharedAccessSignature=sv=2026-01-01&sp=rl&sig="+sig)
		b := c.bucket("bucket")
		for _, call := range bucketCalls {
			err := call(t.Context(), b)
			require.ErrorContains(t, err, "AuthorizationFailure")
			require.NotContains(t, err.Error(), "c2VjcmV0")
		}
		require.Equal(t, meant, seen.Load())
	}
}

// bucketCalls are all calls of a bucket.
var bucketCalls = map[string]func(ctx context.Context, b snapshot.Bucket) error{
	"put":    func(ctx context.Context, b snapshot.Bucket) error { return b.Put(ctx, "there", strings.NewReader("x")) },
	"create": func(ctx context.Context, b snapshot.Bucket) error { return b.Create(ctx, "new", []byte("x")) },
	"get": func(ctx context.Context, b snapshot.Bucket) error {
		r, err := b.Get(ctx, "there")
		if err == nil {
			_ = r.Close()
		}
		return err
	},
	"range": func(ctx context.Context, b snapshot.Bucket) error {
		r, err := b.GetRange(ctx, "there", 0, 1)
		if err == nil {
			_ = r.Close()
		}
		return err
	},
	"list": func(ctx context.Context, b snapshot.Bucket) error {
		return b.List(ctx, "", func(snapshot.Object) error { return nil })
	},
	"delete": func(ctx context.Context, b snapshot.Bucket) error { return b.Delete(ctx, "there") },
}

// When a service fails permanently, every call eventually fails; none waits
// until the service recovers.
func TestCloudsUnavailable(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		c.way.setIntercept(func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return true
		})
		b := c.bucket("bucket")
		var g errgroup.Group
		for name, call := range bucketCalls {
			g.Go(func() error {
				if err := call(t.Context(), b); err == nil {
					return fmt.Errorf("%s succeeds", name)
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
	})
}

// Without permission every call returns an error, and never that an object does
// not exist, or success. The same holds for a bucket that does not exist.
func TestCloudsAccessDenied(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		b := c.bucket("bucket")
		require.NoError(t, b.Create(t.Context(), "there", []byte("x")))
		refused := func(what string, b snapshot.Bucket) {
			for name, call := range bucketCalls {
				err := call(t.Context(), b)
				require.Error(t, err, "%s, %s", what, name)
				require.NotErrorIs(t, err, snapshot.ErrNoObject, "%s, %s", what, name)
				require.NotErrorIs(t, err, snapshot.ErrExists, "%s, %s", what, name)
				require.NotContains(t, err.Error(), c.secret)
				require.NotContains(t, err.Error(), googleToken)
			}
		}
		c.deny(nil)
		refused("denied", b)
		c.way.clearIntercept()
		refused("no bucket", c.bucket("none"))
		c.deny(isList)
		for _, name := range []string{"get", "range", "delete"} {
			err := bucketCalls[name](t.Context(), b)
			require.Error(t, err, name)
			require.NotErrorIs(t, err, snapshot.ErrNoObject, name)
		}
		c.way.clearIntercept()
		require.Equal(t, "x", contentOf(t, b, "there"))
	})
}

// When a tenant's state may not be read, the result is an error, and never an
// empty state, corruption or a conflict. Nothing is lost.
func TestCloudsAccessDeniedIsNotEmptyState(t *testing.T) {
	eachCloud(t, func(t *testing.T, c *cloud) {
		h := c.harness("bucket")
		h.upload(h.container(reg("f", "kept")))
		list, err := h.sink.List(t.Context(), h.owner)
		require.NoError(t, err)
		refused := func(what string, h *harness) {
			for name, call := range map[string]func() error{
				"download": func() error {
					_, err := h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: h.container()})
					return err
				},
				"upload":  func() error { _, err := h.sink.Upload(t.Context(), h.rt, h.origin(h.container())); return err },
				"current": func() error { _, err := h.sink.Current(t.Context(), h.owner); return err },
				"restore": func() error { _, err := h.sink.Restore(t.Context(), h.owner, list[0].ID); return err },
				"prune":   func() error { _, err := h.sink.Prune(t.Context(), h.owner); return err },
			} {
				err := call()
				require.Error(t, err, "%s, %s", what, name)
				for _, not := range []error{snapshot.ErrNoSnapshot, snapshot.ErrNoObject, snapshot.ErrCorrupt, snapshot.ErrConflict, snapshot.ErrStale} {
					require.NotErrorIs(t, err, not, "%s, %s", what, name)
				}
			}
		}
		c.deny(nil)
		refused("denied", h)
		c.deny(isList)
		refused("read denied", h)
		c.way.clearIntercept()
		refused("no bucket", c.harness("none"))
		require.Equal(t, "kept", h.kept()["f"])
	})
}
