package snapshot_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/statekey"
)

// newKeys returns keys with one key.
func newKeys(t testing.TB) sampleKeys {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), 0o600))
	keys, err := statekey.Load(file)
	require.NoError(t, err)
	return sampleKeys{keys}
}

// Who can write the bucket copies the packs of another owner, and makes a list of
// snapshots that names them. The server decrypts none: it must not read another
// tenant's files, or those of another workload, to a tenant.
func TestForgedOwnerIsNotDecrypted(t *testing.T) {
	t.Parallel()
	for _, victim := range []snapshot.Owner{{Workload: "w", Tenant: "bob"}, {Workload: "v", Tenant: "alice"}} {
		h := newHarness(t, "")
		h.sink.SetKeys(newKeys(t))
		alice := h.owner
		h.owner = victim
		h.upload(h.container(reg("secret", "of another")))
		h.owner = alice
		own := fmt.Sprintf("tenants/%s/.hostler/%s/", victim.Tenant, victim.Workload)
		for key, object := range h.bucket.Objects() {
			name, ok := strings.CutPrefix(key, own)
			require.True(t, ok)
			object = bytes.Replace(object, []byte(`"tenant":"bob"`), []byte(`"tenant":"alice"`), 1)
			object = bytes.Replace(object, []byte(`"workload":"v"`), []byte(`"workload":"w"`), 1)
			h.bucket.Set(ownDirectory+name, object, time.Now())
		}
		c := h.container()
		_, err := h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: alice, Container: c})
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		require.ErrorContains(t, err, "cannot be decrypted")
		require.Empty(t, h.has(c, "/data"))
		_, err = h.sink.Export(t.Context(), alice, "", func(snapshot.Snapshot) (io.Writer, error) { return io.Discard, nil })
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
	}
}

// A small list of snapshots that would need gigabytes once it is decoded is refused
// before that, and so is one that leads out of the directory, or out of an archive.
func TestHostileLists(t *testing.T) {
	t.Parallel()
	good := sample(t)
	for problem, list := range map[string]string{
		"more than":   strings.Repeat("0,", 1<<19) + "0,",
		"more than 1": strings.Repeat("{},", 1<<19),
		"too deep":    strings.Repeat("[", 1<<10),
	} {
		bomb := strings.Replace(good, `"snapshots":[`, `"snapshots":[`+list, 1)
		_, err := snapshot.DecodeManifest([]byte(bomb), 3)
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		require.ErrorContains(t, err, problem, "refused before it is decoded")
	}
	for old, instead := range map[string]string{
		`"id":"s"`: `"id":"x/../../../../bob/.hostler/w/seen/y"`, `"path":"/data"`: `"path":"/../../etc"`,
		`"sink_path":"state"`: `"sink_path":"` + strings.Repeat("x", 5000) + `"`, `"pattern":""`: `"pattern":"` + strings.Repeat("**/", 5000) + `"`,
	} {
		require.Contains(t, good, old)
		_, err := snapshot.DecodeManifest([]byte(strings.Replace(good, old, instead, 1)), 3)
		require.ErrorIs(t, err, snapshot.ErrCorrupt, instead)
	}
	const last = 9999999999999999
	h, err := snapshot.DecodeManifest([]byte(strings.Replace(good, `"generation":3`, `"generation":9999999999999999`, 1)), last)
	require.NoError(t, err)
	h.Generation++ // its key would not be found
	_, err = snapshot.EncodeManifest(h)
	require.ErrorContains(t, err, "generation")
}

// A list that no server would read is not stored: it would be the end of all of the
// tenant's snapshots.
func TestUnreadableListIsNotStored(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.upload(h.container(reg("a", "b")))
	dir, head, err := h.sink.Head(t.Context(), h.owner)
	require.NoError(t, err)
	head.Snapshots[0].Revision = strings.Repeat("x", 16<<20)
	data, err := json.Marshal(head)
	require.NoError(t, err)
	_, err = snapshot.EncodeManifest(head)
	require.ErrorContains(t, err, "lower keep")
	key := fmt.Sprintf("%sheads/%016d.json", dir, head.Generation)
	h.bucket.Set(key, data, time.Now())
	_, err = h.sink.List(t.Context(), h.owner)
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.ErrorContains(t, err, key)
}
