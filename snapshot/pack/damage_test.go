package pack

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

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
	const size = 8 << 10
	bomb := zip.EncodeAll(make([]byte, MaxRoot-2*size), nil)
	small := zip.EncodeAll(make([]byte, size), nil)
	var streamed bytes.Buffer
	stream, err := zstd.NewWriter(&streamed)
	require.NoError(t, err)
	_, err = stream.Write(make([]byte, MaxRoot-2*size))
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	for what, body := range map[string][]byte{
		"a frame": bomb, "two frames": append(bytes.Clone(small), bomb...), "a frame of unknown size": streamed.Bytes(),
		"two, one of unknown size": append(bytes.Clone(small), streamed.Bytes()...), "none": nil, "half": small[:len(small)-1],
	} {
		stored := append([]byte{flagZstd}, body...)
		ref := Ref{Offset: 8, Length: uint32(len(stored)), Size: size}
		decode := func() error {
			_, err := c.decode(nil, Data, ref, stored)
			return err
		}
		require.ErrorIs(t, decode(), ErrDamaged, what)
		var before, after uint64
		before = allocated()
		require.ErrorIs(t, decode(), ErrDamaged, what)
		after = allocated()
		require.Less(t, after-before, uint64(size)+512<<10, what)
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
				require.LessOrEqual(t, len(data), max(int(size), len(stored))+Spare)
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
