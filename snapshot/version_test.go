package snapshot_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
)

// A list of snapshots whose version the server does not know is refused by
// everything, with its version, and never taken for no state: nothing is stored
// over it, and nothing is removed, however old it is.
func TestUnknownVersions(t *testing.T) {
	t.Parallel()
	for version, c := range map[string]struct {
		err    error
		advice string
	}{
		"99":                   {snapshot.ErrFormat, "use a Hostler that knows"},
		"0":                    {snapshot.ErrCorrupt, "restore the object"},
		"-1":                   {snapshot.ErrCorrupt, "restore the object"},
		"99999999999999999999": {snapshot.ErrCorrupt, "damaged"},
		`"1"`:                  {snapshot.ErrCorrupt, "damaged"},
		"null":                 {snapshot.ErrCorrupt, "version 0"},
	} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { refusesVersion(t, version, c.err, c.advice) })
		})
	}
}

func refusesVersion(t *testing.T, version string, want error, advice string) {
	h := newHarness(t, "{sink: {type: file}, keep: 1}")
	h.upload(h.container(reg("f", "kept")))
	list, err := h.sink.List(t.Context(), h.owner)
	require.NoError(t, err)
	// The other fields are of other types, as those of a later format may be.
	const head = "tenants/alice/.hostler/w/heads/0000000000000002.json"
	h.bucket.Set(head, fmt.Appendf(nil, `{"version":%s,"generation":2,"fence":0,"workload":"w","tenant":"alice","snapshots":{"a":[1]}}`, version), time.Now())
	<-time.After(25 * time.Hour) // of the bubble
	before := h.bucket.Objects()
	for name, call := range map[string]func() error{
		"list":    func() error { _, err := h.sink.List(t.Context(), h.owner); return err },
		"current": func() error { _, err := h.sink.Current(t.Context(), h.owner); return err },
		"upload": func() error {
			_, err := h.sink.Upload(t.Context(), h.rt, h.origin(h.container(reg("f", "new"))))
			return err
		},
		"download": func() error {
			_, err := h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: h.container()})
			return err
		},
		"restore": func() error { _, err := h.sink.Restore(t.Context(), h.owner, list[0].ID); return err },
		"prune":   func() error { _, err := h.sink.Prune(t.Context(), h.owner); return err },
	} {
		err := call()
		require.ErrorIs(t, err, want, name)
		require.ErrorContains(t, err, advice, name)
		if !strings.ContainsAny(version, `"9n`) || version == "99" {
			require.ErrorContains(t, err, head+" has version "+version, name)
		}
		for _, not := range []error{snapshot.ErrNoSnapshot, snapshot.ErrNoObject, snapshot.ErrConflict, snapshot.ErrStale} {
			require.NotErrorIs(t, err, not, name)
		}
		require.Equal(t, before, h.bucket.Objects(), name)
	}
	require.Empty(t, h.bucket.Calls("delete"))
}
