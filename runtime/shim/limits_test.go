package shim

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// rogue is a peer that holds the key and sends what it likes.
type rogue struct {
	t       testing.TB
	channel *Channel
	conn    net.Conn
	victim  *Conn
	begun   []*Incoming // requests that the victim has begun, and not answered
}

// against is a rogue against one end.
func against(t testing.TB, end End) *rogue {
	t.Helper()
	s, p, ours, theirs := channels(t)
	r := &rogue{t: t, channel: p, conn: theirs}
	serve := func(in *Incoming) error { r.begun = append(r.begun, in); return nil }
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

func (r *rogue) ask(n uint64, streams int) {
	r.send(KindRequest, Request{ID: r.id(n), Op: OpTar, Streams: streams})
}

// id is the n-th number of the rogue's own requests.
func (r *rogue) id(n uint64) uint64 { return r.channel.self.first + 2*n }

// frame sends a frame of the stream 0 of the rogue's n-th request.
func (r *rogue) frame(kind Kind, n uint64, body []byte) {
	_ = r.channel.writeRaw(kind, r.id(n), 0, body)
}

func credit(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// ours is a request of the victim's.
func (r *rogue) ours(streams int) Outgoing {
	r.t.Helper()
	out, err := r.victim.Ask(Request{Op: OpTar, Streams: streams})
	require.NoError(r.t, err)
	return out
}

// fill sends as many bytes as are allowed, and more.
func (r *rogue) fill(n uint64, more int) {
	for range Window / MaxData {
		r.frame(KindData, n, make([]byte, MaxData))
	}
	if more > 0 {
		r.frame(KindData, n, make([]byte, more))
	}
}

// limits is what a rogue does that is allowed, and what is not. The first sets
// the scene of the second.
var limits = map[string]struct {
	allowed, offence func(r *rogue)
}{
	"open requests": {
		func(r *rogue) {
			for n := range r.victim.self.requests {
				r.ask(uint64(n+1), 0)
			}
		},
		func(r *rogue) { r.ask(uint64(r.victim.self.requests+1), 0) },
	},
	"streams": {
		func(r *rogue) {
			for n := range r.victim.self.streams / maxStreams {
				r.ask(uint64(n+1), maxStreams)
			}
		},
		func(r *rogue) { r.ask(uint64(r.victim.self.streams+1), 1) },
	},
	"streams of answered requests": {
		func(r *rogue) {
			for n := range r.victim.self.streams / maxStreams {
				r.ask(uint64(n+1), maxStreams)
			}
			synctest.Wait()
			for _, in := range r.begun {
				_ = in.Answer(Answer{})
			}
			r.send(KindDone, Done{ID: r.id(1)})
			r.ask(900, maxStreams)
		},
		func(r *rogue) { r.ask(901, 1) },
	},
	"streams of one request":    {func(r *rogue) { r.ask(1, maxStreams) }, func(r *rogue) { r.ask(2, maxStreams+1) }},
	"fewer streams than none":   {func(r *rogue) { r.ask(1, 0) }, func(r *rogue) { r.ask(2, -1) }},
	"a number again":            {func(r *rogue) { r.ask(1, 0) }, func(r *rogue) { r.ask(1, 0) }},
	"a smaller number":          {func(r *rogue) { r.ask(3, 0) }, func(r *rogue) { r.ask(2, 0) }},
	"a number of the other end": {nil, func(r *rogue) { r.send(KindRequest, Request{ID: r.victim.self.first + 20, Op: OpTar}) }},
	"streams without an answer": {func(r *rogue) { r.send(KindRequest, Request{}) }, func(r *rogue) { r.send(KindRequest, Request{Streams: 1}) }},
	"a request that is too long": {nil, func(r *rogue) {
		r.send(KindRequest, Request{ID: r.id(1), Key: strings.Repeat("x", Server.requestSize)})
	}},

	"credit overrun":             {func(r *rogue) { r.ask(1, 1); r.fill(1, 0) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"credit overrun after reset": {func(r *rogue) { r.ask(1, 1); synctest.Wait(); r.begun[0].Stream(0).Reset(errForgotten); r.fill(1, 0) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"overrun of what is answered": {
		func(r *rogue) { r.ask(1, 1); synctest.Wait(); _ = r.begun[0].Answer(Answer{}); r.fill(1, 0) },
		func(r *rogue) { r.frame(KindData, 1, []byte("x")) },
	},
	"a frame that is too large":  {func(r *rogue) { r.ask(1, 1); r.frame(KindData, 1, make([]byte, MaxData)) }, func(r *rogue) { r.frame(KindData, 1, make([]byte, MaxData+1)) }},
	"a frame of no bytes":        {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindData, 1, nil) }},
	"data for an unknown number": {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindData, 2, []byte("x")) }},
	"data for an unknown stream": {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { _ = r.channel.writeRaw(KindData, r.id(1), 1, []byte("x")) }},
	"data without a stream":      {func(r *rogue) { r.ask(1, 0) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"data after the end":         {func(r *rogue) { r.ask(1, 1); r.frame(KindEnd, 1, nil); r.frame(KindReset, 1, []byte("{}")) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"data after its end":         {func(r *rogue) { r.ask(1, 1); r.frame(KindEnd, 1, nil) }, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"two ends":                   {func(r *rogue) { r.ask(1, 1); r.frame(KindEnd, 1, nil) }, func(r *rogue) { r.frame(KindEnd, 1, nil) }},
	"an end with bytes":          {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindEnd, 1, []byte("x")) }},
	"two resets":                 {func(r *rogue) { r.ask(1, 1); r.frame(KindReset, 1, []byte("{}")) }, func(r *rogue) { r.frame(KindReset, 1, []byte("{}")) }},
	"a reset without a reason":   {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindReset, 1, []byte("{")) }},
	"a reset with a long reason": {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindReset, 1, []byte(`{"detail":"`+strings.Repeat("x", maxReset)+`"}`)) }},

	"no credit":       {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindCredit, 1, credit(0)) }},
	"too much credit": {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindCredit, 1, credit(1)) }},
	"credit that was not used": {
		func(r *rogue) {
			r.ask(1, 1)
			synctest.Wait()
			_, _ = r.begun[0].Stream(0).Write(make([]byte, 10))
			r.frame(KindCredit, 1, credit(4))
			r.frame(KindCredit, 1, credit(6))
		},
		func(r *rogue) { r.frame(KindCredit, 1, credit(1)) },
	},
	"credit beyond all":       {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindCredit, 1, credit(1<<32-1)) }},
	"a credit of three bytes": {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.frame(KindCredit, 1, []byte{0, 0, 1}) }},

	"notes": {
		func(r *rogue) {
			out := r.ours(0)
			for range maxNotes {
				r.send(KindNote, Note{ID: out.id, Turn: TurnQueued})
			}
		},
		func(r *rogue) { r.send(KindNote, Note{ID: r.victim.sent, Turn: TurnQueued}) },
	},
	"notes that nobody reads": {
		func(r *rogue) {
			out := r.ours(0)
			out.Forget()
			r.send(KindNote, Note{ID: out.id, Turn: TurnQueued})
			r.send(KindNote, Note{ID: out.id, Turn: TurnQueued})
		},
		func(r *rogue) { r.send(KindNote, Note{ID: r.victim.sent, Turn: TurnQueued}) },
	},
	"a note about nothing":      {nil, func(r *rogue) { r.send(KindNote, Note{ID: r.victim.self.first + 2}) }},
	"a note on its own request": {func(r *rogue) { r.ask(1, 0) }, func(r *rogue) { r.send(KindNote, Note{ID: r.id(1)}) }},
	"an answer to nothing":      {nil, func(r *rogue) { r.send(KindAnswer, Answer{ID: r.victim.self.first + 2}) }},
	"an answer to its own":      {func(r *rogue) { r.ask(1, 0) }, func(r *rogue) { r.send(KindAnswer, Answer{ID: r.id(1)}) }},
	"two answers":               {func(r *rogue) { r.send(KindAnswer, Answer{ID: r.ours(0).id}) }, func(r *rogue) { r.send(KindAnswer, Answer{ID: r.victim.sent}) }},
	"a note after the answer":   {func(r *rogue) { r.send(KindAnswer, Answer{ID: r.ours(0).id}) }, func(r *rogue) { r.send(KindNote, Note{ID: r.victim.sent}) }},
	"data after the answer":     {func(r *rogue) { r.send(KindAnswer, Answer{ID: r.ours(1).id}) }, func(r *rogue) { _ = r.channel.writeRaw(KindData, r.victim.sent, 0, []byte("x")) }},
	"an end before the answer":  {func(r *rogue) { r.ask(1, 1) }, func(r *rogue) { r.send(KindDone, Done{ID: r.id(1)}) }},
	"an end without streams":    {func(r *rogue) { r.ask(1, 0); synctest.Wait(); _ = r.begun[0].Answer(Answer{}) }, func(r *rogue) { r.send(KindDone, Done{ID: r.id(1)}) }},
	"an end of the other's":     {func(r *rogue) { r.ours(1) }, func(r *rogue) { r.send(KindDone, Done{ID: r.victim.sent}) }},
	"data after all": {func(r *rogue) {
		r.ask(1, 1)
		synctest.Wait()
		_ = r.begun[0].Answer(Answer{})
		r.send(KindDone, Done{ID: r.id(1)})
	}, func(r *rogue) { r.frame(KindData, 1, []byte("x")) }},
	"another kind":               {nil, func(r *rogue) { r.send(Kind('?'), Request{}) }},
	"a greeting again":           {nil, func(r *rogue) { r.send(KindHello, Hello{Version: Version}) }},
	"a message that is no JSON":  {nil, func(r *rogue) { _ = r.channel.writeRaw(KindRequest, 1, 0, []byte("{")) }},
	"a stream's frame cut short": {nil, func(r *rogue) { r.send(KindData, 1) }},
}

// What is within the limits of an end is served, and the first frame beyond ends
// the connection, and is told from a stream that broke.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, c := range limits {
		for _, end := range []End{Server, Program} {
			if name == "a request that is too long" && end.name == Program.name {
				continue // its limit is that of a frame
			}
			t.Run(name+"/"+end.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := against(t, end)
					defer r.victim.Close()
					if c.allowed != nil {
						c.allowed(r)
					}
					synctest.Wait()
					require.NoError(t, r.victim.Err(), "what is allowed")
					c.offence(r)
					synctest.Wait()
					require.ErrorIs(t, r.victim.Err(), ErrProtocol)
				})
			})
		}
	}
}

// kinds are those of the frames that a fuzzed peer sends.
const kinds = "QNAFDCER?"

// After the handshake a peer may send whatever it likes: this end neither panics
// nor keeps a goroutine, and holds no more than its streams' windows.
func FuzzConn(f *testing.F) {
	f.Add([]byte("\x00\x20{\"id\":2,\"op\":\"tar\",\"streams\":1}\x04\x0a\x00\x00\x00\x00\x00\x00\x00\x02\x00x"))
	f.Add([]byte("\x00\x20{\"id\":3,\"op\":\"tar\",\"streams\":4}\x06\x09\x00\x00\x00\x00\x00\x00\x00\x03\x01"))
	f.Add([]byte("\x02\x08{\"id\":3}\x03\x08{\"id\":3}\x01\x08{\"id\":3}"))
	f.Add([]byte("\x07\x0b\x00\x00\x00\x00\x00\x00\x00\x03\x00{}\x05\x0d\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, script []byte) {
		for _, end := range []End{Server, Program} {
			synctest.Test(t, func(t *testing.T) { play(t, end, script) })
		}
	})
}

// play sends the script: a kind, a length and a body, again and again.
func play(t *testing.T, end End, script []byte) {
	r := against(t, end)
	r.ours(1)
	r.ours(0)
	for len(script) > 2 {
		kind, size := Kind(kinds[int(script[0])%len(kinds)]), min(int(script[1]), len(script)-2)
		body := script[2 : 2+size]
		script = script[2+size:]
		if streamKinds[kind] && len(body) >= streamHead {
			_ = r.channel.writeRaw(kind, binary.BigEndian.Uint64(body), body[8], body[streamHead:])
			continue
		}
		_ = r.channel.Write(kind, jsonBody(body)) // what is no JSON is not sent
	}
	synctest.Wait()
	held := 0
	r.victim.mu.Lock()
	for _, x := range r.victim.open {
		for _, s := range x.streams {
			for _, chunk := range s.chunks {
				held += cap(chunk)
			}
		}
	}
	r.victim.mu.Unlock()
	require.LessOrEqual(t, held, 2*Window*(Server.streams+Program.streams))
	r.victim.Close()
	for _, in := range r.begun {
		_ = in.Answer(Answer{})
	}
	synctest.Wait()
}
