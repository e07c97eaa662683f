package snapshot

import (
	"archive/tar"
	"crypto/sha256"
	"strings"
	"time"
)

// nameHash is the hash of an entry's path.
type nameHash [16]byte

// ancestors holds the last entry of an archive and the directories above it.
// Archives list the contents of a directory right after it, so this is all that
// is needed about directories that may still have to be written, and each path
// component is hashed once. An archive in another order costs more hashes, and
// its directories lose their modes where the pattern excludes them.
type ancestors struct {
	name  string
	chain []ancestor // one for each component of name
}

// ancestor is one component of a path.
type ancestor struct {
	end  int      // offset of the component's end in the path
	hash nameHash // of the path up to there
	// listed reports whether the archive has listed it as a directory that the
	// pattern excludes and that was not written.
	listed  bool
	mode    int64
	modTime time.Time
}

// advance makes name, a clean relative path, the last entry.
func (a *ancestors) advance(name string) {
	same := commonPrefix(a.name, name)
	keep := 0
	for keep < len(a.chain) {
		end := a.chain[keep].end
		if end > same || end < len(name) && name[end] != '/' {
			break
		}
		keep++
	}
	a.name, a.chain = name, a.chain[:keep]
	begin, parent := 0, nameHash{}
	if keep > 0 {
		begin, parent = a.chain[keep-1].end+1, a.chain[keep-1].hash
	}
	for begin < len(name) {
		end := len(name)
		if i := strings.IndexByte(name[begin:], '/'); i >= 0 {
			end = begin + i
		}
		sum := sha256.New()
		sum.Write(parent[:])
		sum.Write([]byte(name[begin:end]))
		parent = nameHash(sum.Sum(nil)[:len(parent)])
		a.chain = append(a.chain, ancestor{end: end, hash: parent})
		begin = end + 1
	}
}

// commonPrefix returns the length of the common prefix of two names.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// last returns the entry itself; parents returns the directories above it.
func (a *ancestors) last() *ancestor     { return &a.chain[len(a.chain)-1] }
func (a *ancestors) parents() []ancestor { return a.chain[:len(a.chain)-1] }

// markListed records that the last entry is a directory that the pattern
// excludes.
func (a *ancestors) markListed(h *tar.Header) {
	last := a.last()
	last.listed, last.mode, last.modTime = true, h.Mode, h.ModTime
}

// header returns the entry of a directory that was listed.
func (a *ancestors) header(d ancestor) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeDir, Name: a.name[:d.end] + "/", Mode: d.mode, ModTime: d.modTime, Format: tar.FormatPAX,
	}
}
