package index

import (
	"encoding/binary"
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

// decoder reads the encoding of a segment or a root. After the first error all
// results are zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = damaged(format, args...)
	}
	d.b = nil
}

func (d *decoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > limit {
		d.fail("a number is not valid")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) size() int64 { return int64(d.uvarint(math.MaxInt64)) } //nolint:gosec // bounded

func (d *decoder) count(limit int) int { return int(d.uvarint(uint64(limit))) } //nolint:gosec // bounded

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("a number is not valid")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.fail("it ends too early")
		return make([]byte, min(n, 64)) // callers use at most 32 bytes as an array
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte { return d.bytes(1)[0] }

// version reads the version that begins a blob.
func (d *decoder) version() {
	if v := d.byte(); v != formatVersion && d.err == nil {
		d.fail("it has version %d, and this server reads version %d", v, formatVersion)
	}
}

// place reads a reference without its pack.
func (d *decoder) place(id pack.ID, kind pack.Kind) pack.Ref {
	r := pack.Ref{Pack: id}
	r.Offset = uint32(d.uvarint(math.MaxUint32)) //nolint:gosec // bounded
	r.Length = uint32(d.uvarint(math.MaxUint32)) //nolint:gosec // bounded
	r.Size = uint32(d.uvarint(math.MaxUint32))   //nolint:gosec // bounded
	r.Hash = pack.Hash(d.bytes(len(r.Hash)))
	if err := r.Check(kind); err != nil && d.err == nil {
		d.err, d.b = err, nil
	}
	return r
}

// decodeRoot returns the root of an index.
func decodeRoot(b []byte) (*Root, error) {
	d := &decoder{b: b}
	r := &Root{}
	d.version()
	r.Nonce = [16]byte(d.bytes(len(r.Nonce)))
	r.Files, r.Bytes = d.count(math.MaxInt), d.size()
	for n := d.count(maxPacks); n > 0 && d.err == nil; n-- {
		id := pack.ID(d.bytes(len(pack.ID{})))
		r.Packs = append(r.Packs, PackUse{ID: id, Live: d.size()})
	}
	for n := d.count(maxSegments); n > 0 && d.err == nil; n-- {
		i := d.count(maxPacks)
		if i >= len(r.Packs) {
			d.fail("a segment is in no pack of its list")
			break
		}
		r.Segments = append(r.Segments, d.place(r.Packs[i].ID, pack.Segment))
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes follow its end", len(d.b))
	}
	return r, d.err
}

// segmentReader reads the records of a segment.
type segmentReader struct {
	decoder
	packs []pack.ID
	left  int
	last  string
}

// readSegment begins to read a segment.
func readSegment(b []byte) (*segmentReader, error) {
	s := &segmentReader{decoder: decoder{b: b}}
	s.version()
	for n := s.count(maxPacks); n > 0 && s.err == nil; n-- {
		s.packs = append(s.packs, pack.ID(s.bytes(len(pack.ID{}))))
	}
	s.left = s.count(maxRecords)
	return s, s.err
}

// next returns the next record; ok is false after the last one. Chunks are valid
// until the next call.
func (s *segmentReader) next(chunks []Chunk) (r Record, ok bool, err error) {
	if s.err != nil || s.left == 0 {
		if s.err == nil && len(s.b) > 0 {
			s.fail("%d bytes follow its last record", len(s.b))
		}
		return Record{}, false, s.err
	}
	s.left--
	shared := s.count(len(s.last))
	r.Path = s.last[:shared] + string(s.bytes(s.count(maxPath)))
	r.Kind = tree.Kind(s.byte())
	flags := s.byte()
	r.Continued, r.More = flags&flagContinued != 0, flags&flagMore != 0
	if s.err == nil && flags&^(flagContinued|flagMore) != 0 {
		s.fail("a record is of an unknown kind")
	}
	if !r.Continued {
		s.metadata(&r)
	}
	if r.Kind == tree.File {
		r.Chunks = chunks[:0]
		for n := s.count(MaxChunks); n > 0 && s.err == nil; n-- {
			r.Chunks = append(r.Chunks, s.chunk())
		}
	}
	s.check(r)
	s.last = r.Path
	return r, s.err == nil, s.err
}

// Limits of one entry, which are the kernel's.
const (
	maxPath      = 4 << 10
	maxComponent = 255
	maxTarget    = 4 << 10
	maxMode      = 0o1777 // permission bits and the sticky bit
)

func (s *segmentReader) metadata(r *Record) {
	r.Mode = uint32(s.uvarint(maxMode)) //nolint:gosec // bounded
	r.Owner, r.Group = s.varint(), s.varint()
	seconds := s.varint()
	r.ModTime = time.Unix(seconds, int64(s.uvarint(999_999_999))) //nolint:gosec // bounded
	switch r.Kind {
	case tree.File:
		r.Size = s.size()
	case tree.Link:
		r.Target = string(s.bytes(s.count(maxTarget)))
	}
}

func (s *segmentReader) chunk() Chunk {
	i := s.count(maxPacks)
	if i == 0 {
		hole := s.size()
		if hole == 0 {
			s.fail("a hole is empty")
		}
		return Chunk{Hole: hole}
	}
	if i > len(s.packs) {
		s.fail("a chunk is in no pack of its list")
		return Chunk{}
	}
	return Chunk{Ref: s.place(s.packs[i-1], pack.Data)}
}

// maxID is the largest id of a user or group; tree.OwnUser is below it.
const maxID = math.MaxUint32

// check refuses records that nothing writes, and a wrong order within the
// segment.
func (s *segmentReader) check(r Record) {
	if s.err != nil {
		return
	}
	if err := r.check(); err != nil {
		s.fail("%w", err)
	} else if s.last != "" && !r.Continued && tree.Compare(s.last, r.Path) >= 0 {
		s.fail("%.200q follows %.200q", r.Path, s.last)
	}
}

// check returns an error for a record that no index has: a name that leads
// outside, an unknown kind, or a value beyond its limit.
func (r Record) check() error {
	switch {
	case r.Kind != tree.File && r.Kind != tree.Dir && r.Kind != tree.Link:
		return fmt.Errorf("%.200q is not a file, directory or link", r.Path)
	case r.Kind != tree.File && (r.Continued || r.More):
		return fmt.Errorf("%.200q is not a file and is continued", r.Path)
	case !isClean(r.Path):
		return fmt.Errorf("the path %.200q is not valid", r.Path)
	case r.Continued:
		return nil
	case r.Owner < tree.OwnUser || r.Owner > maxID || r.Group < tree.OwnGroup || r.Group > maxID:
		return fmt.Errorf("%.200q has an invalid owner", r.Path)
	case r.Mode > maxMode:
		return fmt.Errorf("%.200q has an invalid mode", r.Path)
	case r.Size < 0:
		return fmt.Errorf("%.200q has an invalid size", r.Path)
	case r.Kind == tree.Link && (r.Target == "" || len(r.Target) > maxTarget || strings.ContainsRune(r.Target, 0)):
		return fmt.Errorf("the link %.200q has no valid target", r.Path)
	}
	return nil
}

// isClean reports whether a path is relative, clean, and within the limits.
func isClean(p string) bool {
	if p == "" || p == "." || len(p) > maxPath || path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." || len(part) > maxComponent {
			return false
		}
	}
	return true
}

// isBelow reports whether a path is below another one.
func isBelow(dir, p string) bool {
	return len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/'
}
