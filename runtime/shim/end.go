package shim

import "time"

// End is one of the two ends of a connection, with what it allows the other one.
type End struct {
	name         string        // as it goes into what is proven and derived
	first        uint64        // its requests have numbers that are this and a multiple of two
	writeTimeout time.Duration // of one frame; a peer that does not read is lost

	// Of the other end's requests that are open at once.
	requests    int
	requestSize int // of one, in bytes
	streams     int // of all of them together
}

// The ends. A server sends requests to a program; a program, so far, none. The
// limits are far above what either needs: they are what a broken peer, or one
// that a tenant has got hold of, can make the other one hold.
var (
	// Server has odd numbers.
	Server = End{
		name: "server", first: 1, writeTimeout: 10 * time.Second,
		requests: 32, requestSize: 64 << 10, streams: 32,
	}
	// Program has even numbers.
	Program = End{
		name: "program", first: 0, writeTimeout: 30 * time.Second,
		requests: 1024, requestSize: MaxFrame, streams: 64,
	}
)

// Of one stream.
const (
	// Window is how many bytes an end may send before the other one has read
	// them. It is also what a reader that does not read costs.
	Window = 1 << 20
	// MaxData bounds the bytes in one frame.
	MaxData = 64 << 10
	// maxStreams bounds the streams of one request.
	maxStreams = 4
)

// maxNotes is how many notes one request can get: queued and started.
const maxNotes = 2

// features are what this end can do besides the protocol's version. The peer
// says in its greeting what it can: what only one has is not used. An end ignores
// names that it does not know.
var features = []string{FeatureFiles}

// FeatureFiles is that OpTar and OpUntar move files as streams.
const FeatureFiles = "files"

// common are the features that both lists have, at most as many as ours.
func common(theirs []string) []string {
	var both []string
	for _, feature := range features {
		for _, other := range theirs {
			if feature == other {
				both = append(both, feature)
				break
			}
		}
	}
	return both
}
