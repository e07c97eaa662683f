package pack

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keys derives ciphers from one key, as the server's keys do.
type keys struct {
	id  [8]byte
	key []byte
}

func (k keys) Current() [8]byte { return k.id }

var errUnknownKey = errors.New("unknown key")

func (k keys) Pack(id [8]byte, pack [16]byte) (cipher.AEAD, error) {
	if id != k.id {
		return nil, errUnknownKey
	}
	derived, err := hkdf.Key(sha256.New, k.key, pack[:], "hostler state pack", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// bucket is one in memory. With failing set, Put fails once.
type bucket struct {
	mu      sync.Mutex
	all     map[string][]byte
	ranges  int
	putting int
	most    int
	failing error
	gate    chan struct{} // each Put takes one, unless it is nil
}

func (b *bucket) Put(ctx context.Context, key string, r io.Reader) error {
	b.mu.Lock()
	b.putting++
	b.most = max(b.most, b.putting)
	err := b.failing
	b.failing = nil
	b.mu.Unlock()
	if b.gate != nil {
		select {
		case <-b.gate:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	data, readErr := io.ReadAll(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putting--
	if err = errors.Join(err, readErr); err != nil {
		return err
	}
	if b.all == nil {
		b.all = map[string][]byte{}
	}
	b.all[key] = data
	return nil
}

var errNone = errors.New("no such object")

func (b *bucket) GetRange(_ context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ranges++
	data, ok := b.all[key]
	if !ok {
		return nil, errNone
	}
	if offset+size > int64(len(data)) {
		return io.NopCloser(bytes.NewReader(data[min(offset, int64(len(data))):])), nil
	}
	return io.NopCloser(bytes.NewReader(data[offset : offset+size])), nil
}

// blob is a blob of a test.
type blob struct {
	kind Kind
	data []byte
	ref  Ref
}

// write writes blobs.
func write(t *testing.T, to *bucket, f *Format, blobs []blob) {
	t.Helper()
	w, hash := NewWriter(t.Context(), to, "packs/", f, nil), f.Hasher()
	for i, b := range blobs {
		ref, err := w.Add(b.kind, hash(b.kind, b.data), b.data)
		require.NoError(t, err)
		blobs[i].ref = ref
	}
	require.NoError(t, w.Flush())
}

func noise(n int) []byte {
	source := rand.NewChaCha8([32]byte{byte(n)})
	b := make([]byte, n)
	_, _ = source.Read(b)
	return b
}

func formats() map[string]*Format {
	return map[string]*Format{
		"plain":     {Salt: [32]byte{1}},
		"encrypted": {Salt: [32]byte{1}, Keys: keys{[8]byte{9}, []byte("the key")}},
		"no key":    {Salt: [32]byte{1}, Keys: keys{}},
	}
}

// Each blob is read as it was added, in any order, and appended to what a buffer
// has.
func TestBlobsAreThoseAdded(t *testing.T) {
	t.Parallel()
	for name, f := range formats() {
		blobs := []blob{
			{kind: Data, data: []byte("a")}, {kind: Segment, data: []byte("a")}, {kind: Root, data: []byte("a")},
			{kind: Data, data: noise(1000)}, {kind: Data, data: make([]byte, MaxData)}, {kind: Data, data: noise(MaxData)},
			{kind: Segment, data: noise(MaxData)}, {kind: Root, data: noise(MaxRoot)}, {kind: Root, data: bytes.Repeat([]byte("root"), MaxRoot/4)},
		}
		to := &bucket{}
		write(t, to, f, blobs)
		require.Len(t, to.all, 3, name)
		for _, object := range to.all {
			require.Equal(t, "HOSTPCK\x01", string(object[:8]))
			require.Less(t, len(object), TargetSize+MaxRoot+1000)
		}
		from := NewReader(to, "packs/", f, nil)
		defer from.Close()
		var all, want []byte
		for i := range blobs {
			b := blobs[len(blobs)-1-i]
			var err error
			all, err = from.Blob(t.Context(), all, b.kind, b.ref)
			require.NoError(t, err, "%s %d", name, i)
			want = append(want, b.data...)
		}
		require.True(t, bytes.Equal(want, all), name)
		require.NotEqual(t, blobs[0].ref.Hash, blobs[1].ref.Hash, "the kind is part of the identity")
	}
}

// Blobs of each small size, compressible or not, are readable: the encoder writes
// other headers for some of them.
func TestSizesOfBlobs(t *testing.T) {
	t.Parallel()
	for name, f := range formats() {
		var blobs []blob
		for n := 1; n < 1500; n++ {
			blobs = append(blobs, blob{kind: Data, data: bytes.Repeat([]byte("a"), n)}, blob{kind: Data, data: noise(n)})
		}
		for n := 1 << 11; n <= MaxData; n *= 2 {
			for d := -1; d <= 1; d++ {
				blobs = append(blobs, blob{kind: Root, data: make([]byte, n+d)}, blob{kind: Root, data: make([]byte, n+256+d)})
			}
		}
		to := &bucket{}
		write(t, to, f, blobs)
		from := NewReader(to, "packs/", f, nil)
		defer from.Close()
		for _, b := range blobs {
			got, err := from.Blob(t.Context(), nil, b.kind, b.ref)
			require.NoError(t, err, "%s %d", name, len(b.data))
			require.True(t, bytes.Equal(b.data, got))
		}
	}
}

// An encrypted pack shows nothing, and opens with its key only.
func TestKeys(t *testing.T) {
	t.Parallel()
	secret := []byte(strings.Repeat("secret ", 50))
	f, to := formats()["encrypted"], &bucket{}
	blobs := []blob{{kind: Data, data: secret}, {kind: Data, data: noise(50)}}
	write(t, to, f, blobs)
	for _, object := range to.all {
		require.NotContains(t, string(object), "secret")
		require.NotContains(t, string(object), string(blobs[1].data))
	}
	for _, k := range []Keys{keys{[8]byte{9}, []byte("another")}, keys{[8]byte{8}, []byte("the key")}, keys{}, nil} {
		from := NewReader(to, "packs/", &Format{Salt: f.Salt, Keys: k}, nil)
		_, err := from.Blob(t.Context(), nil, Data, blobs[0].ref)
		require.Error(t, err)
		from.Close()
	}
	from := NewReader(to, "packs/", &Format{Salt: f.Salt, Keys: keys{[8]byte{8}, nil}}, nil)
	defer from.Close()
	_, err := from.Blob(t.Context(), nil, Data, blobs[0].ref)
	require.ErrorIs(t, err, errUnknownKey, "a missing key is not damage")
	require.NotErrorIs(t, err, ErrDamaged)
}

// A small pack that is held needs one request, a large one is not held.
func TestHeldPacks(t *testing.T) {
	t.Parallel()
	f, to := formats()["encrypted"], &bucket{}
	blobs := []blob{{kind: Data, data: noise(300)}, {kind: Data, data: noise(200)}, {kind: Root, data: noise(100)}}
	write(t, to, f, blobs)
	var received int64
	from := NewReader(to, "packs/", f, func(n int64) { received += n })
	defer from.Close()
	last := blobs[2].ref
	size := int64(last.Offset + last.Length)
	for range 2 {
		require.NoError(t, from.Hold(t.Context(), last.Pack, size))
	}
	clone := from.Clone()
	defer clone.Close()
	for _, b := range blobs {
		for _, r := range []*Reader{from, clone} {
			got, err := r.Blob(t.Context(), nil, b.kind, b.ref)
			require.NoError(t, err)
			require.Equal(t, b.data, got)
		}
	}
	require.Equal(t, 1, to.ranges)
	require.Equal(t, size, received)
	beyond := last
	beyond.Length++
	_, err := from.Blob(t.Context(), nil, Root, beyond)
	require.Error(t, err, "the range is read, and does not exist")
	require.Equal(t, 2, to.ranges)
	require.NoError(t, from.Hold(t.Context(), ID{1}, MaxHeld+1))
	require.NoError(t, from.Hold(t.Context(), ID{1}, 0))
	require.NoError(t, from.Hold(t.Context(), ID{1}, -5))
	require.Equal(t, 2, to.ranges)
	require.ErrorIs(t, from.Hold(t.Context(), ID{1}, 9), errNone)
}
