package shim

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// rogue is a peer that holds the key and sends arbitrary frames.
type rogue struct {
	t        testing.TB
	channel  *Channel
	conn     net.Conn
	victim   *Conn
	accepted []*Incoming // requests that the victim has started and not answered
}

// newRogue returns a rogue peer of one end.
func newRogue(t testing.TB, end Role) *rogue {
	t.Helper()
	s, p, ours, theirs := newChannelConns(t)
	r := &rogue{t: t, channel: p, conn: theirs}
	serve := func(in *Incoming) error { r.accepted = append(r.accepted, in); return nil }
	r.victim = NewConn(ours, s, serve, nil)
	if end.name == Program.name {
		r.channel, r.conn = s, ours
		r.victim = NewConn(theirs, p, serve, nil)
	}
	go r.victim.Run() // both end with the connection
	go func() { _, _ = io.Copy(io.Discard, r.conn) }()
	t.Cleanup(func() { r.victim.Close() })
	return r
}

func (r *rogue) send(kind Kind, message any) { _ = r.channel.Write(kind, message) }

func (r *rogue) request(n uint64, streams int) {
	r.send(KindRequest, Request{ID: r.id(n), Op: OpTar, Streams: streams})
}

// window sends the rogue's n-th request, whose stream has a window.
func (r *rogue) window(n uint64, size int) {
	r.send(KindRequest, Request{ID: r.id(n), Op: OpTar, Streams: 1, Window: size})
}

// run sends the rogue's n-th request with a command.
func (r *rogue) run(n uint64, run Run) {
	r.send(KindRequest, Request{ID: r.id(n), Op: OpRun, Run: &run})
}

// id returns the ID of the rogue's n-th request.
func (r *rogue) id(n uint64) uint64 { return r.channel.local.firstID + 2*n }

// frame sends a frame of stream 0 of the rogue's n-th request.
func (r *rogue) frame(kind Kind, n uint64, body []byte) {
	_ = r.channel.writeRaw(kind, r.id(n), 0, body)
}

func creditBody(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// victimCall returns a new request of the victim.
func (r *rogue) victimCall(streams int) Outgoing {
	r.t.Helper()
	out, err := r.victim.Call(Request{Op: OpTar, Streams: streams})
	require.NoError(r.t, err)
	return out
}

// fillWindow sends as many bytes as the window allows, and extra bytes more.
func (r *rogue) fillWindow(n uint64, more int) {
	for range Window / MaxData {
		r.frame(KindData, n, make([]byte, MaxData))
	}
	if more > 0 {
		r.frame(KindData, n, make([]byte, more))
	}
}

// protocolLimits are pairs of what a rogue may do and what it may not do. The
// first one prepares the second one.
var protocolLimits = map[string]struct {
	allowed, violation func(r *rogue)
}{
	"open requests": {
		func(r *rogue) {
			for n := range r.victim.local.maxRequests {
				r.request(uint64(n+1), 0)
			}
		},
		func(r *rogue) { r.request(uint64(r.victim.local.maxRequests+1), 0) },
	},
	"streams": {
		func(r *rogue) {
			for n := range r.victim.local.maxStreams / maxStreamsPerRequest {
				r.request(uint64(n+1), maxStreamsPerRequest)
			}
		},
		func(r *rogue) { r.request(uint64(r.victim.local.maxStreams+1), 1) },
	},
	"streams of answered requests": {
		func(r *rogue) {
			for n := range r.victim.local.maxStreams / maxStreamsPerRequest {
				r.request(uint64(n+1), maxStreamsPerRequest)
			}
			synctest.Wait()
			for _, in := range r.accepted {
				_ = in.Respond(Response{})
			}
			r.send(KindDone, Done{ID: r.id(1)})
			r.request(900, maxStreamsPerRequest)
		},
		func(r *rogue) { r.request(901, 1) },
	},
	"streams of one request":       {func(r *rogue) { r.request(1, maxStreamsPerRequest) }, func(r *rogue) { r.request(2, maxStreamsPerRequest+1) }},
	"negative stream count":        {func(r *rogue) { r.request(1, 0) }, func(r *rogue) { r.request(2, -1) }},
	"repeated ID":                  {func(r *rogue) { r.request(1, 0) }, func(r *rogue) { r.request(1, 0) }},
	"smaller ID":                   {func(r *rogue) { r.request(3, 0) }, func(r *rogue) { r.request(2, 0) }},
	"ID of the other end":          {nil, func(r *rogue) { r.send(KindRequest, Request{ID: r.victim.local.firstID + 20, Op: OpTar}) }},
	"one-way request with streams": {func(r *rogue) { r.send(KindRequest, Request{}) }, func(r *rogue) { r.send(KindRequest, Request{Streams: 1}) }},
	"request too large": {nil, func(r *rogue) {
		r.send(KindRequest, Request{ID: r.id(1), RunID: strings.Repeat("x", Server.maxRequestSize)})
	}},
	"script too long": {
		func(r *rogue) {
			if r.victim.local.name == Program.name { // others take no request of that size
				r.run(1, Run{Script: bytes.Repeat([]byte("x"), runtime.MaxScript)})
			}
		},
		func(r *rogue) { r.run(2, Run{Script: bytes.Repeat([]byte("x"), runtime.MaxScript+1)}) },
	},
	"negative limit": {
		func(r *rogue) { r.run(1, Run{Limits: runtime.ProcessLimits{Memory: 1, Output: 1}}) },
		func(r *rogue) { r.run(2, Run{Limits: runtime.ProcessLimits{Memory: 1, Output: -1}}) },
	},
	"NUL in a script": {func(r *rogue) { r.run(1, Run{Script: []byte("a")}) }, func(r *rogue) { r.run(2, Run{Script: []byte("a\x00")}) }},

	"smaller window":           {func(r *rogue) { r.window(1, minWindow); r.frame(KindData, 1, make([]byte, minWindow)) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"window that is too small": {func(r *rogue) { r.window(1, minWindow) }, func(r *rogue) { r.window(2, minWindow-1) }},
	"window that is too large": {func(r *rogue) { r.window(1, Window) }, func(r *rogue) { r.window(2, Window+1) }},
	"negative window":          {nil, func(r *rogue) { r.window(1, -1) }},
	"credit beyond the window": {
		func(r *rogue) {
			r.window(1, minWindow)
			synctest.Wait()
			_, _ = r.accepted[0].Stream(0).Write(make([]byte, 10))
			r.frame(KindCredit, 1, creditBody(10))
		},
		func(r *rogue) { r.frame(KindCredit, 1, creditBody(1)) },
	},
	"credit overrun": {func(r *rogue) { r.request(1, 1); r.fillWindow(1, 0) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"credit overrun after reset": {func(r *rogue) {
		r.request(1, 1)
		synctest.Wait()
		r.accepted[0].Stream(0).Reset(errAbandoned)
		r.fillWindow(1, 0)
	}, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"credit overrun of an answered request": {
		func(r *rogue) {
			r.request(1, 1)
			synctest.Wait()
			_ = r.accepted[0].Respond(Response{})
			r.fillWindow(1, 0)
		},
		func(r *rogue) { r.frame(KindData, 1, []byte("x")) },
	},
	"frame too large":            {func(r *rogue) { r.request(1, 1); r.frame(KindData, 1, make([]byte, MaxData)) }, func(r *rogue) { r.frame(KindData, 1, make([]byte, MaxData+1)) }},
	"empty data frame":           {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindData, 1, nil) }},
	"data for an unknown ID":     {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindData, 2, []byte("x")) }},
	"data for an unknown stream": {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { _ = r.channel.writeRaw(KindData, r.id(1), 1, []byte("x")) }},
	"data without a stream":      {func(r *rogue) { r.request(1, 0) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"data after end and reset":   {func(r *rogue) { r.request(1, 1); r.frame(KindEnd, 1, nil); r.frame(KindReset, 1, []byte("{}")) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"data after end":             {func(r *rogue) { r.request(1, 1); r.frame(KindEnd, 1, nil) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"two ends":                   {func(r *rogue) { r.request(1, 1); r.frame(KindEnd, 1, nil) }, func(r *rogue) { r.frame(KindEnd, 1, nil) }},
	"end with bytes":             {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindEnd, 1, []byte("x")) }},
	"two resets":                 {func(r *rogue) { r.request(1, 1); r.frame(KindReset, 1, []byte("{}")) }, func(r *rogue) { r.frame(KindReset, 1, []byte("{}")) }},
	"reset without reason":       {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindReset, 1, []byte("{")) }},
	"reset with long reason":     {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindReset, 1, []byte(`{"detail":"`+strings.Repeat("x", maxResetSize)+`"}`)) }},

	"no credit":       {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindCredit, 1, creditBody(0)) }},
	"too much credit": {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindCredit, 1, creditBody(1)) }},
	"credit that was not used": {
		func(r *rogue) {
			r.request(1, 1)
			synctest.Wait()
			_, _ = r.accepted[0].Stream(0).Write(make([]byte, 10))
			r.frame(KindCredit, 1, creditBody(4))
			r.frame(KindCredit, 1, creditBody(6))
		},
		func(r *rogue) { r.frame(KindCredit, 1, creditBody(1)) },
	},
	"maximum credit":        {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindCredit, 1, creditBody(1<<32-1)) }},
	"credit of three bytes": {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.frame(KindCredit, 1, []byte{0, 0, 1}) }},

	"notes": {
		func(r *rogue) {
			out := r.victimCall(0)
			for range maxProgress {
				r.send(KindProgress, Progress{ID: out.id, State: ProgressQueued})
			}
		},
		func(r *rogue) { r.send(KindProgress, Progress{ID: r.victim.lastSentID, State: ProgressQueued}) },
	},
	"unread progress messages": {
		func(r *rogue) {
			out := r.victimCall(0)
			out.Abandon()
			r.send(KindProgress, Progress{ID: out.id, State: ProgressQueued})
			r.send(KindProgress, Progress{ID: out.id, State: ProgressQueued})
		},
		func(r *rogue) { r.send(KindProgress, Progress{ID: r.victim.lastSentID, State: ProgressQueued}) },
	},
	"progress of an unknown request":  {nil, func(r *rogue) { r.send(KindProgress, Progress{ID: r.victim.local.firstID + 2}) }},
	"progress of its own request":     {func(r *rogue) { r.request(1, 0) }, func(r *rogue) { r.send(KindProgress, Progress{ID: r.id(1)}) }},
	"response to an unknown request":  {nil, func(r *rogue) { r.send(KindResponse, Response{ID: r.victim.local.firstID + 2}) }},
	"response to its own request":     {func(r *rogue) { r.request(1, 0) }, func(r *rogue) { r.send(KindResponse, Response{ID: r.id(1)}) }},
	"two responses":                   {func(r *rogue) { r.send(KindResponse, Response{ID: r.victimCall(0).id}) }, func(r *rogue) { r.send(KindResponse, Response{ID: r.victim.lastSentID}) }},
	"progress after the response":     {func(r *rogue) { r.send(KindResponse, Response{ID: r.victimCall(0).id}) }, func(r *rogue) { r.send(KindProgress, Progress{ID: r.victim.lastSentID}) }},
	"data after the response":         {func(r *rogue) { r.send(KindResponse, Response{ID: r.victimCall(1).id}) }, func(r *rogue) { _ = r.channel.writeRaw(KindData, r.victim.lastSentID, 0, []byte("x")) }},
	"done before the response":        {func(r *rogue) { r.request(1, 1) }, func(r *rogue) { r.send(KindDone, Done{ID: r.id(1)}) }},
	"done without streams":            {func(r *rogue) { r.request(1, 0); synctest.Wait(); _ = r.accepted[0].Respond(Response{}) }, func(r *rogue) { r.send(KindDone, Done{ID: r.id(1)}) }},
	"done of the other end's request": {func(r *rogue) { r.victimCall(1) }, func(r *rogue) { r.send(KindDone, Done{ID: r.victim.lastSentID}) }},
	"data after done": {func(r *rogue) {
		r.request(1, 1)
		synctest.Wait()
		_ = r.accepted[0].Respond(Response{})
		r.send(KindDone, Done{ID: r.id(1)})
	}, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"unknown kind":             {nil, func(r *rogue) { r.send(Kind('?'), Request{}) }},
	"second handshake":         {nil, func(r *rogue) { r.send(KindHandshake, Handshake{Version: Version}) }},
	"message that is not JSON": {nil, func(r *rogue) { _ = r.channel.writeRaw(KindRequest, 1, 0, []byte("{")) }},
	"truncated stream frame":   {nil, func(r *rogue) { r.send(KindData, 1) }},
}

// An end serves what is within its limits. The first frame beyond a limit ends
// the connection with ErrProtocol, which differs from a broken stream.
func TestProtocolLimits(t *testing.T) {
	t.Parallel()
	for name, c := range protocolLimits {
		for _, end := range []Role{Server, Program} {
			if name == "request too large" && end.name == Program.name {
				continue // its limit is that of a frame
			}
			t.Run(name+"/"+end.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRogue(t, end)
					defer r.victim.Close()
					if c.allowed != nil {
						c.allowed(r)
					}
					synctest.Wait()
					require.NoError(t, r.victim.Err(), "within the limits")
					c.violation(r)
					synctest.Wait()
					require.ErrorIs(t, r.victim.Err(), ErrProtocol)
				})
			})
		}
	}
}

// fuzzKinds are the kinds of the frames that a fuzzed peer sends.
const fuzzKinds = "QNAFDCER?"

// After the handshake a peer may send anything: this end neither panics nor
// leaks a goroutine, it holds no more than its streams' windows, and it accepts
// no invalid command.
func FuzzConn(f *testing.F) {
	f.Add([]byte("\x00\x20{\"id\":2,\"op\":\"tar\",\"streams\":1}\x04\x0a\x00\x00\x00\x00\x00\x00\x00\x02\x00x"))
	f.Add([]byte("\x00\x20{\"id\":3,\"op\":\"tar\",\"streams\":4}\x06\x09\x00\x00\x00\x00\x00\x00\x00\x03\x01"))
	f.Add([]byte("\x02\x08{\"id\":3}\x03\x08{\"id\":3}\x01\x08{\"id\":3}"))
	f.Add([]byte("\x07\x0b\x00\x00\x00\x00\x00\x00\x00\x03\x00{}\x05\x0d\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x01"))
	f.Add([]byte("\x00\x3d{\"id\":2,\"op\":\"run\",\"run\":{\"args\":[\"sh\"],\"script\":\"ZXhpdA==\"}}"))
	f.Add([]byte("\x00\x39{\"id\":2,\"op\":\"run\",\"run\":{\"args\":[\"sh\"],\"script\":\"AA==\"}}"))
	f.Add([]byte("\x00\x3f{\"id\":2,\"op\":\"run\",\"run\":{\"args\":[\"sh\"],\"limits\":{\"memory\":1}}}"))
	f.Add([]byte("\x00\x40{\"id\":2,\"op\":\"run\",\"run\":{\"args\":[\"sh\"],\"limits\":{\"memory\":-1}}}"))
	f.Fuzz(func(t *testing.T, script []byte) {
		for _, end := range []Role{Server, Program} {
			synctest.Test(t, func(t *testing.T) { playScript(t, end, script) })
		}
	})
}

// playScript sends the script, a sequence of kind, length and body.
func playScript(t *testing.T, end Role, script []byte) {
	r := newRogue(t, end)
	r.victimCall(1)
	r.victimCall(0)
	for len(script) > 2 {
		kind, size := Kind(fuzzKinds[int(script[0])%len(fuzzKinds)]), min(int(script[1]), len(script)-2)
		body := script[2 : 2+size]
		script = script[2+size:]
		if streamKinds[kind] && len(body) >= streamHeaderSize {
			_ = r.channel.writeRaw(kind, binary.BigEndian.Uint64(body), body[8], body[streamHeaderSize:])
			continue
		}
		_ = r.channel.Write(kind, jsonBody(body)) // a body that is not JSON is not sent
	}
	synctest.Wait()
	buffered := 0
	r.victim.mu.Lock()
	for _, x := range r.victim.exchanges {
		for _, s := range x.streams {
			for _, chunk := range s.chunks {
				buffered += cap(chunk.buffer)
			}
			require.LessOrEqual(t, len(s.spare), maxSpare)
		}
	}
	r.victim.mu.Unlock()
	require.LessOrEqual(t, buffered, 2*Window*(Server.maxStreams+Program.maxStreams))
	r.victim.Close()
	for _, in := range r.accepted {
		if in.Request.Run != nil {
			require.Empty(t, in.Request.Run.Invalid())
		}
		_ = in.Respond(Response{})
	}
	synctest.Wait()
}
