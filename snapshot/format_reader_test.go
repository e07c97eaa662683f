package snapshot_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"
)

// documentedReader reads what docs/state-format.md describes, and uses nothing of
// the program.
type documentedReader struct {
	testing.TB
	dir, keys string
	salt      []byte

	sawEncrypted, sawCompressed, sawPlain bool
}

func readFS(from fs.FS, name string) ([]byte, error) { return fs.ReadFile(from, name) }

type documentedHead struct {
	Version    int
	Generation int64
	Workload   string
	Tenant     string
	Salt       string
	Snapshots  []documentedSnapshot
}

type documentedSnapshot struct {
	Parts []struct {
		Index struct {
			Pack                 string
			Offset, Length, Size uint64
			Hash                 string
		}
		Files, Bytes, Stored uint64
	}
}

// documentedRef is a reference.
type documentedRef struct {
	pack                 []byte
	offset, length, size uint64
	hash                 []byte
}

func (r *documentedReader) head() (h documentedHead) {
	heads, err := filepath.Glob(filepath.Join(r.dir, "heads", "*.json"))
	require.NoError(r, err)
	data, err := os.ReadFile(slices.Max(heads))
	require.NoError(r, err)
	require.NoError(r, json.Unmarshal(data, &h))
	require.Equal(r, 2, h.Version)
	require.Equal(r, fmt.Sprintf("%016d.json", h.Generation), filepath.Base(slices.Max(heads)))
	require.Equal(r, "alice of w", h.Tenant+" of "+h.Workload)
	r.salt, err = hex.DecodeString(h.Salt)
	require.NoError(r, err)
	require.Len(r, r.salt, 32)
	return h
}

// blob reads a blob.
func (r *documentedReader) blob(kind byte, ref documentedRef) []byte {
	id, err := uuid.FromBytes(ref.pack)
	require.NoError(r, err)
	object, err := os.ReadFile(filepath.Join(r.dir, "packs", id.String()))
	require.NoError(r, err)
	require.Equal(r, "HOSTPCK\x01", string(object[:8]))
	stored := object[ref.offset : ref.offset+ref.length]
	flags, data := stored[0], stored[1:]
	require.Zero(r, flags&^3)
	if flags&2 != 0 {
		r.sawEncrypted = true
		data = r.decrypt(kind, ref, flags, data[:8], data[8:])
	}
	r.sawCompressed, r.sawPlain = r.sawCompressed || flags&1 != 0, r.sawPlain || flags&1 == 0
	if flags&1 != 0 {
		var header zstd.Header
		require.NoError(r, header.Decode(data))
		require.True(r, header.HasFCS)
		require.Equal(r, ref.size, header.FrameContentSize)
		zip, err := zstd.NewReader(nil)
		require.NoError(r, err)
		defer zip.Close()
		data, err = zip.DecodeAll(data, nil)
		require.NoError(r, err)
	}
	require.Equal(r, ref.size, uint64(len(data)))
	hash, err := blake3.NewKeyed(r.salt)
	require.NoError(r, err)
	_, _ = hash.Write([]byte{kind})
	_, _ = hash.Write(data)
	require.Equal(r, ref.hash, hash.Sum(nil))
	return data
}

func (r *documentedReader) decrypt(kind byte, ref documentedRef, flags byte, id, sealed []byte) []byte {
	file, err := os.ReadFile(r.keys)
	require.NoError(r, err)
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(file)))
	require.NoError(r, err)
	own, err := hkdf.Key(sha256.New, key, nil, "hostler state key id", 8)
	require.NoError(r, err)
	require.Equal(r, own, id)
	packKey, err := hkdf.Key(sha256.New, key, ref.pack, "hostler state pack", 32)
	require.NoError(r, err)
	block, err := aes.NewCipher(packKey)
	require.NoError(r, err)
	gcm, err := cipher.NewGCM(block)
	require.NoError(r, err)
	nonce := binary.BigEndian.AppendUint64(make([]byte, 4), ref.offset)
	data, err := gcm.Open(nil, nonce, sealed, slices.Concat([]byte{flags}, id, []byte{kind}, []byte("w/alice")))
	require.NoError(r, err)
	return data
}

// fields reads the fields of a root or a segment.
type fields struct {
	testing.TB
	*bytes.Reader
}

func (f fields) uvarint() uint64 {
	v, err := binary.ReadUvarint(f)
	require.NoError(f, err)
	return v
}

func (f fields) varint() int64 {
	u := f.uvarint()
	if u%2 == 0 {
		return int64(u / 2)
	}
	return -int64(u/2) - 1
}

func (f fields) bytes(n uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = f.byte()
	}
	return b
}

func (f fields) byte() byte {
	b, err := f.ReadByte()
	require.NoError(f, err)
	return b
}

func (f fields) place(pack []byte) documentedRef {
	return documentedRef{pack, f.uvarint(), f.uvarint(), f.uvarint(), f.bytes(32)}
}

// snapshot returns the entries of a snapshot, a line for each.
func (r *documentedReader) snapshot(s documentedSnapshot) (lines []string) {
	for _, part := range s.Parts {
		id, err := uuid.Parse(part.Index.Pack)
		require.NoError(r, err)
		hash, err := hex.DecodeString(part.Index.Hash)
		require.NoError(r, err)
		root := fields{r, bytes.NewReader(r.blob('r', documentedRef{id[:], part.Index.Offset, part.Index.Length, part.Index.Size, hash}))}
		require.Equal(r, byte(1), root.byte())
		root.bytes(16) // random
		require.Equal(r, part.Files, root.uvarint())
		require.Equal(r, part.Bytes, root.uvarint())
		var packs [][]byte
		live := uint64(0)
		for range root.uvarint() {
			packs = append(packs, root.bytes(16))
			live += root.uvarint()
		}
		require.Equal(r, part.Stored, live)
		before := len(lines)
		segments := root.uvarint()
		require.Greater(r, segments, uint64(1), "the sample has several")
		for range segments {
			pack := packs[root.uvarint()]
			lines = r.segment(lines, r.blob('s', root.place(pack)))
		}
		require.Zero(r, root.Len())
		require.Equal(r, int(part.Files), len(lines)-before)
	}
	return lines
}

// segment adds the entries of a segment.
func (r *documentedReader) segment(lines []string, data []byte) []string {
	s := fields{r, bytes.NewReader(data)}
	require.Equal(r, byte(1), s.byte())
	var packs [][]byte
	for range s.uvarint() {
		packs = append(packs, s.bytes(16))
	}
	path := []byte{}
	for range s.uvarint() {
		path = slices.Clone(path[:s.uvarint()])
		path = append(path, s.bytes(s.uvarint())...)
		kind, flags := s.byte(), s.byte()
		if flags&1 == 0 {
			mode, owner, group, seconds, nanoseconds := s.uvarint(), s.varint(), s.varint(), s.varint(), s.uvarint()
			target := ""
			switch kind {
			case 'f':
				s.uvarint() // the size, which is that of the content
			case 'l':
				target = string(s.bytes(s.uvarint()))
			}
			lines = append(lines, fmt.Sprintf("%c %q %o %d %d %d.%d %q ", kind, path, mode, owner, group, seconds, nanoseconds, target))
		}
		if kind != 'f' {
			continue
		}
		for range s.uvarint() {
			i := s.uvarint()
			content := ""
			if i == 0 {
				content = strings.Repeat("\x00", int(s.uvarint()))
			} else {
				content = string(r.blob('d', s.place(packs[i-1])))
			}
			lines[len(lines)-1] += content
		}
	}
	require.Zero(r, s.Len())
	return lines
}
