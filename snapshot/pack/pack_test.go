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
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
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

// A changed, cut, moved or swapped blob, or one read as another kind or with
// another salt, is damaged.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	for name, f := range formats() {
		to := &bucket{}
		blobs := []blob{{kind: Data, data: []byte(strings.Repeat("ab", 60))}, {kind: Data, data: noise(80)}, {kind: Data, data: noise(81)[:80]}}
		write(t, to, f, blobs)
		key := slices.Collect(maps.Keys(to.all))[0]
		good := to.all[key]
		from := NewReader(to, "packs/", f, nil)
		defer from.Close()
		damaged := func(ref Ref, kind Kind, what string, args ...any) {
			t.Helper()
			_, err := from.Blob(t.Context(), nil, kind, ref)
			require.Error(t, err, name+": "+what, args)
			require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, errUnknownKey) || f.Keys == nil, "%s: %v", name, err)
		}
		for _, b := range blobs {
			_, err := from.Blob(t.Context(), nil, Data, b.ref)
			require.NoError(t, err)
			for i := b.ref.Offset; i < b.ref.Offset+b.ref.Length; i++ {
				bad := bytes.Clone(good)
				bad[i] ^= byte(1 + rand.IntN(255))
				to.all[key] = bad
				damaged(b.ref, Data, "byte %d", i)
			}
			to.all[key] = good[:b.ref.Offset+b.ref.Length-1]
			_, err = from.Blob(t.Context(), nil, Data, b.ref)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			to.all[key] = good
			damaged(b.ref, Segment, "another kind")
			for _, change := range []func(*Ref){
				func(r *Ref) { r.Hash[3]++ }, func(r *Ref) { r.Size++ }, func(r *Ref) { r.Size-- }, func(r *Ref) { r.Length-- }, func(r *Ref) { r.Offset-- },
			} {
				r := b.ref
				change(&r)
				damaged(r, Data, "%+v", r)
			}
		}
		first, second := blobs[1].ref, blobs[2].ref
		require.Equal(t, first.Length, second.Length)
		swapped := bytes.Clone(good)
		copy(swapped[first.Offset:], good[second.Offset:second.Offset+second.Length])
		copy(swapped[second.Offset:], good[first.Offset:first.Offset+first.Length])
		to.all[key] = swapped
		damaged(first, Data, "swapped")
		damaged(second, Data, "swapped")
		other := NewReader(to, "packs/", &Format{Salt: [32]byte{2}, Keys: f.Keys}, nil)
		defer other.Close()
		to.all[key] = good
		_, err := other.Blob(t.Context(), nil, Data, first)
		require.ErrorIs(t, err, ErrDamaged, "another salt")
	}
}

// An encrypted blob is bound to its pack, its place and its kind, also for a
// reader who would accept any hash.
func TestEncryptedBlobsAreBound(t *testing.T) {
	t.Parallel()
	f, to := formats()["encrypted"], &bucket{}
	blobs := []blob{{kind: Data, data: noise(40)}, {kind: Data, data: noise(41)}}
	write(t, to, f, blobs)
	object := slices.Collect(maps.Values(to.all))[0]
	c := newCodec(f)
	defer c.close()
	ref := blobs[0].ref
	stored := object[ref.Offset : ref.Offset+ref.Length]
	_, err := c.open(nil, Data, ref, stored)
	require.NoError(t, err)
	for _, change := range []func(r *Ref, k *Kind, b []byte){
		func(r *Ref, _ *Kind, _ []byte) { r.Pack[0]++ }, func(r *Ref, _ *Kind, _ []byte) { r.Offset++ },
		func(_ *Ref, k *Kind, _ []byte) { *k = Segment }, func(_ *Ref, _ *Kind, b []byte) { b[0] ^= flagZstd },
	} {
		r, k, b := ref, Data, bytes.Clone(stored)
		change(&r, &k, b)
		_, err := c.open(nil, k, r, b)
		require.ErrorIs(t, err, ErrDamaged)
	}
}

// A blob that decompresses to more than its reference has takes no memory for
// that.
func TestBombs(t *testing.T) {
	f := formats()["plain"]
	c := newCodec(f)
	defer c.close()
	zip, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer zip.Close()
	bomb := zip.EncodeAll(make([]byte, MaxRoot), nil)
	small := zip.EncodeAll([]byte("x"), nil)
	var streamed bytes.Buffer
	stream, err := zstd.NewWriter(&streamed)
	require.NoError(t, err)
	_, err = stream.Write(make([]byte, MaxRoot))
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	for what, body := range map[string][]byte{
		"a frame": bomb, "two frames": append(bytes.Clone(small), bomb...), "a frame of unknown size": streamed.Bytes(),
		"two, one of unknown size": append(bytes.Clone(small), streamed.Bytes()...), "none": nil, "half": small[:len(small)-1],
	} {
		stored := append([]byte{flagZstd}, body...)
		ref := Ref{Offset: 8, Length: uint32(len(stored)), Size: max(1, uint32(len(stored))-maxOverhead)}
		if what == "a frame" {
			ref.Size = MaxData
		}
		decode := func() error {
			_, err := c.decode(nil, Data, ref, stored)
			return err
		}
		require.ErrorIs(t, decode(), ErrDamaged, what)
		var before, after uint64
		before = allocated()
		require.ErrorIs(t, decode(), ErrDamaged, what)
		after = allocated()
		require.Less(t, after-before, uint64(ref.Size)+512<<10, what)
	}
}

// References come from the bucket: none leads outside of what a pack can have.
func TestReferencesAreChecked(t *testing.T) {
	t.Parallel()
	good := Ref{Offset: 8, Length: 100, Size: 100}
	require.NoError(t, good.Check(Data))
	for _, change := range []func(*Ref){
		func(r *Ref) { r.Offset = 7 }, func(r *Ref) { r.Offset = maxOffset + 1 }, func(r *Ref) { r.Size, r.Length = MaxData+1, 5 },
		func(r *Ref) { r.Length = 0 }, func(r *Ref) { r.Length = 100 + maxOverhead + 1 }, func(r *Ref) { r.Size, r.Length = 1<<32-1, 1<<32-1 },
	} {
		r := good
		change(&r)
		require.ErrorIs(t, r.Check(Data), ErrDamaged, "%+v", r)
	}
	require.NoError(t, Ref{Offset: maxOffset, Length: 5, Size: MaxRoot}.Check(Root))
	require.ErrorIs(t, Ref{Offset: 8, Length: 5, Size: MaxRoot + 1}.Check(Root), ErrDamaged)
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

// Packs are stored in parallel, as many at once as are allowed for.
func TestParallelPuts(t *testing.T) {
	t.Parallel()
	f, to := formats()["plain"], &bucket{}
	var mu sync.Mutex
	var sent int64
	w := NewWriter(t.Context(), to, "packs/", f, func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		sent += n
	})
	data := noise(MaxData)
	packs := map[ID]bool{}
	for i := range 20 {
		data[0] = byte(i)
		r, err := w.Add(Data, Hash{byte(i)}, data)
		require.NoError(t, err)
		packs[r.Pack] = true
	}
	_, _, filling := w.Filling()
	require.False(t, filling)
	require.NoError(t, w.Flush())
	stored, n := w.Stored()
	require.Equal(t, 10, n)
	require.Len(t, packs, 10)
	require.Len(t, to.all, 10)
	require.LessOrEqual(t, to.most, maxPuts)
	require.Equal(t, stored, sent)
	require.Greater(t, stored, int64(20*MaxData))
}

// A failed store fails a later Add or Flush, and no goroutine is left.
func TestFailedPut(t *testing.T) {
	t.Parallel()
	errPut := errors.New("put")
	f := formats()["plain"]
	for _, blobs := range []int{1, 2, 6} {
		to := &bucket{failing: errPut}
		w := NewWriter(t.Context(), to, "packs/", f, nil)
		var err error
		for i := 0; i < blobs && err == nil; i++ {
			_, err = w.Add(Data, Hash{byte(i)}, noise(MaxData))
		}
		if err == nil {
			err = w.Flush()
		} else {
			require.ErrorIs(t, w.Discard(), errPut)
		}
		require.True(t, errors.Is(err, errPut) || errors.Is(err, context.Canceled), "%v", err)
	}
}

// A discarded writer waits for what it stores, which ends with its context.
func TestDiscard(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	to := &bucket{gate: make(chan struct{})}
	w := NewWriter(ctx, to, "packs/", formats()["plain"], nil)
	for i := range 3 {
		_, err := w.Add(Data, Hash{byte(i)}, noise(MaxData))
		require.NoError(t, err)
	}
	cancel()
	require.ErrorIs(t, w.Discard(), context.Canceled)
	require.Empty(t, to.all)
	_, err := w.Add(Data, Hash{}, []byte("x"))
	require.ErrorIs(t, err, context.Canceled)
}

// What no reader would accept is not written.
func TestAddIsBounded(t *testing.T) {
	t.Parallel()
	w := NewWriter(t.Context(), &bucket{}, "packs/", formats()["plain"], nil)
	for kind, n := range map[Kind]int{Data: MaxData + 1, Segment: MaxData + 1, Root: MaxRoot + 1} {
		_, err := w.Add(kind, Hash{}, make([]byte, n))
		require.Error(t, err)
	}
	_, err := w.Add(Data, Hash{}, nil)
	require.Error(t, err)
	require.NoError(t, w.Flush())
	_, n := w.Stored()
	require.Zero(t, n)
}

// Chunks add up to the content, are within the limits, and after a change in the
// middle most are the same. Another salt cuts elsewhere.
func TestChunker(t *testing.T) {
	t.Parallel()
	content := noise(20 << 20)
	cut := func(f *Format, content []byte) map[string]bool {
		c, err := NewChunker(f)
		require.NoError(t, err)
		chunks := map[string]bool{}
		for range 2 { // it can be used again
			c.Reset(bytes.NewReader(content))
			var all []byte
			for {
				chunk, err := c.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				require.LessOrEqual(t, len(chunk), MaxData)
				all = append(all, chunk...)
				require.True(t, len(chunk) >= minChunk || len(all) == len(content))
				chunks[string(chunk)] = true
			}
			require.True(t, bytes.Equal(content, all))
		}
		return chunks
	}
	f := formats()["plain"]
	before := cut(f, content)
	changed := slices.Concat(content[:10<<20], []byte("inserted"), content[10<<20:])
	fresh := 0
	for chunk := range cut(f, changed) {
		if !before[chunk] {
			fresh++
		}
	}
	require.Greater(t, len(before), 8)
	require.LessOrEqual(t, fresh, 3)
	same := 0
	for chunk := range cut(&Format{Salt: [32]byte{2}}, content) {
		if before[chunk] {
			same++
		}
	}
	require.LessOrEqual(t, same, 1)
	require.Empty(t, cut(f, nil))
}

func FuzzDecode(f *testing.F) {
	for _, format := range formats() {
		for _, data := range [][]byte{[]byte("a"), bytes.Repeat([]byte("a"), 100)} {
			c := newCodec(format)
			stored, err := c.encode([]byte(header), ID{1}, Data, data)
			require.NoError(f, err)
			f.Add(stored[8:], uint32(8), uint32(len(data)), byte(Data))
		}
	}
	f.Fuzz(func(t *testing.T, stored []byte, offset, size uint32, kind byte) {
		for _, format := range formats() {
			c := newCodec(format)
			defer c.close()
			ref := Ref{Pack: ID{1}, Offset: offset, Length: uint32(len(stored)), Size: size}
			data, err := c.open(nil, Kind(kind), ref, stored)
			if err == nil {
				require.LessOrEqual(t, len(data), max(int(size), len(stored))+spare)
				ref.Hash = format.Hasher()(Kind(kind), data)
				again, err := c.decode(nil, Kind(kind), ref, stored)
				require.Equal(t, len(data) == int(size), err == nil)
				require.True(t, err != nil || bytes.Equal(data, again))
			}
			ref.Hash = Hash{1}
			_, err = c.decode(nil, Kind(kind), ref, stored)
			require.Error(t, err)
		}
	})
}
