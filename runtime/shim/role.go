package shim

import (
	"slices"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Role is one of the two ends of a connection, with the limits that it enforces
// on the other end.
type Role struct {
	name         string        // used in proofs and key derivation
	firstID      uint64        // its request IDs are this plus multiples of two
	writeTimeout time.Duration // for one frame; a peer that does not read loses the connection

	// Limits on the other end's open requests.
	maxRequests    int
	maxRequestSize int // of one request, in bytes
	maxStreams     int // of all open requests together
}

// The two ends. A server sends requests to a program; a program sends what
// processes of its container ask. The limits are far above what either end needs. They bound what a
// broken peer, or one that a tenant controls, can make the other end hold.
var (
	// Server has odd request IDs.
	Server = Role{
		name: "server", firstID: 1, writeTimeout: 10 * time.Second,
		maxRequests: runtime.MaxRequests, maxRequestSize: MaxAskSize, maxStreams: 32,
	}
	// Program has even request IDs.
	Program = Role{
		name: "program", firstID: 0, writeTimeout: 30 * time.Second,
		maxRequests: 2048, maxRequestSize: MaxFrame, maxStreams: 640,
	}
)

// Limits of one stream.
const (
	// Window is how many bytes an end may send before the other end has read
	// them, unless the request has a smaller one. It is also the memory that a
	// stalled reader costs.
	Window = 1 << 20
	// minWindow is the smallest window of a request.
	minWindow = 4 << 10
	// MaxData bounds the bytes in one frame.
	MaxData = 64 << 10
	// maxStreamsPerRequest bounds the streams of one request.
	maxStreamsPerRequest = 4
)

// maxProgress is the maximum number of progress messages of one request: queued
// and started.
const maxProgress = 2

// features are the optional features of this end, in addition to the protocol's
// version. The handshake carries both ends' features. Only features that both
// ends have are used. An end ignores unknown names.
var features = []string{FeatureFiles, FeatureScripts, FeatureLimits, FeatureCommands, FeaturePorts, FeatureEnvironment, FeatureTrees, FeatureOutput}

// The features.
const (
	FeatureFiles   = "files"   // OpTar and OpUntar transfer files as streams
	FeatureScripts = "scripts" // Run.Script
	FeatureLimits  = "limits"  // Run.Limits
	// FeatureCommands means OpCommand and what belongs to it, Request.Window, and
	// that the program has more than the limits of earlyProgram.
	FeatureCommands = "commands"
	FeaturePorts    = "ports" // OpDial and OpClosePorts, with the window and the limits of FeatureCommands
	// FeatureEnvironment means Request.Environment.
	FeatureEnvironment = "environment"
	FeatureTrees       = "trees"  // OpScan and OpWrite
	FeatureOutput      = "output" // OpOutput
)

// earlyProgram has the limits of a program without FeatureCommands.
var earlyProgram = Role{maxRequests: 1024, maxStreams: 64}

// limitsFor returns the role with the limits that the end of a connection with
// these features has.
func (r Role) limitsFor(features []string) Role {
	if r.name == Program.name && !slices.Contains(features, FeatureCommands) {
		r.maxRequests, r.maxStreams = earlyProgram.maxRequests, earlyProgram.maxStreams
	}
	return r
}

// What requests of tenants leave free of the limits of a connection: hooks, transfers
// and releases need it, and a tenant may send as many requests as it likes. One that
// its client has left is open until the program has answered it.
const (
	keptRequests = 512
	keptStreams  = 64
)

// tenantOps are the requests that a server sends because a tenant asks for it.
var tenantOps = map[Op]bool{OpCommand: true, OpCommands: true, OpEndCommand: true, OpDial: true, OpOutput: true}

// limitsOf returns the role with the limits for a request of the other end.
func (r Role) limitsOf(op Op) Role {
	if tenantOps[op] {
		r.maxRequests -= keptRequests
		r.maxStreams -= keptStreams
	}
	return r
}

// commonFeatures returns the features that both ends have, so at most as many
// as ours.
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
