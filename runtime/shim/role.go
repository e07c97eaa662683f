package shim

import "time"

// Role is one of the two ends of a connection, with what it allows the other one.
type Role struct {
	name         string        // as it goes into what is proven and derived
	firstID      uint64        // its requests have numbers that are this and a multiple of two
	writeTimeout time.Duration // of one frame; a peer that does not read is lost

	// Of the other end's requests that are open at once.
	maxRequests    int
	maxRequestSize int // of one, in bytes
	maxStreams     int // of all of them together
}

// The ends. A server sends requests to a program; a program, so far, none. The
// limits are far above what either needs: they are what a broken peer, or one
// that a tenant has got hold of, can make the other one hold.
var (
	// Server has odd numbers.
	Server = Role{
		name: "server", firstID: 1, writeTimeout: 10 * time.Second,
		maxRequests: 32, maxRequestSize: 64 << 10, maxStreams: 32,
	}
	// Program has even numbers.
	Program = Role{
		name: "program", firstID: 0, writeTimeout: 30 * time.Second,
		maxRequests: 1024, maxRequestSize: MaxFrame, maxStreams: 64,
	}
)

// Of one stream.
const (
	// Window is how many bytes an end may send before the other one has read
	// them. It is also what a reader that does not read costs.
	Window = 1 << 20
	// MaxData bounds the bytes in one frame.
	MaxData = 64 << 10
	// maxStreamsPerRequest bounds the streams of one request.
	maxStreamsPerRequest = 4
)

// maxProgress is how many notes one request can get: queued and started.
const maxProgress = 2

// features are what this end can do besides the protocol's version. The peer
// says in its greeting what it can: what only one has is not used. An end ignores
// names that it does not know.
var features = []string{FeatureFiles}

// FeatureFiles is that OpTar and OpUntar move files as streams.
const FeatureFiles = "files"

// commonFeatures are the features that both lists have, at most as many as ours.
func commonFeatures(remote []string) []string {
	var shared []string
	for _, feature := range features {
		for _, theirs := range remote {
			if feature == theirs {
				shared = append(shared, feature)
				break
			}
		}
	}
	return shared
}
