package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// requestSocket is where processes of a container send requests to the server.
const requestSocket = "@hostler"

// maxRequestFrame is the size of the largest frame that the socket accepts, more
// or less: sizes around it are tried.
const maxRequestFrame = 104 << 10

func requestAttacks() []attack {
	return []attack{{
		Name: "request-garbage", Requests: true, run: runRequestGarbage,
		Text: "send the socket of requests frames of every length and kind, hold silent connections, and publish events without a pause",
	}}
}

func requestChildren() map[string]func(t tenant, ready func()) {
	return map[string]func(t tenant, ready func()){"request-garbage": requestGarbage}
}

func runRequestGarbage(t tenant) error {
	c, err := net.Dial("unix", requestSocket)
	if err != nil {
		return err
	}
	c.Close()
	return t.startChild("request-garbage")
}

// requestGarbage continues until it is killed: some connections publish, some send
// garbage, and others are held open.
func requestGarbage(t tenant, ready func()) {
	var n atomic.Int64
	for i := range 4 {
		go loop(func() { sendFrame(garbageRequest(t, int(n.Add(1)))) })
		if i%2 == 0 {
			go publishEvents(t, i)
		}
	}
	go holdRequests()
	ready()
	hang()
}

// publishEvents sends valid requests.
func publishEvents(t tenant, publisher int) {
	n := 0
	loop(func() {
		id := fmt.Sprintf("%s-%d-%d", t.marker, publisher, n)
		c, err := net.Dial("unix", requestSocket)
		if err != nil {
			return // there is no room
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Write(publishFrame(t, id)); err != nil {
			return
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			n++
		}
	})
}

// holdRequests keeps connections open, of which every other one has sent the
// beginning of a frame.
func holdRequests() {
	var all []net.Conn
	n := 0
	loop(func() {
		<-time.After(50 * time.Millisecond)
		c, err := net.Dial("unix", requestSocket)
		if err != nil {
			return
		}
		if n++; n%2 == 0 {
			_, _ = c.Write([]byte{0, 0, 1, 0, 'Q', '{'})
		}
		all = append(all, c)
		if len(all) > 64 {
			all[0].Close()
			all = all[1:]
		}
	})
}

// sendFrame sends what is no request on a connection of its own, and waits until
// that is closed, or for a moment.
func sendFrame(frame []byte) {
	c, err := net.Dial("unix", requestSocket)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Millisecond))
	_, _ = c.Write(frame) // it may be closed
	_, _ = io.Copy(io.Discard, c)
}

// requestFrame returns a frame: the length of the body, its kind, and the body.
func requestFrame(kind byte, body []byte) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	return append(append(frame, kind), body...)
}

// askFrame returns a request as the program in the container sends it. more are
// fields that it never sends.
func askFrame(op, id, name, body string, more map[string]any) []byte {
	ask := map[string]any{"key": id, "name": name, "body": []byte(body)}
	for key, value := range more {
		ask[key] = value
	}
	encoded, _ := json.Marshal(map[string]any{"op": op, "ask": ask}) // it always encodes
	return requestFrame('Q', encoded)
}

// publishFrame returns a valid request.
func publishFrame(t tenant, id string) []byte {
	return askFrame("ask", id, "event.publish", fmt.Sprintf(`{"type":"custom.attack","data":{"marker":%q}}`, t.marker), nil)
}

// serverOps are what only a server asks of the shim, and what nothing does.
var serverOps = []string{
	"run", "outcome", "cancel", "restart", "begin", "stop", "halt", "baseline", "wipe", "changed", "tar", "untar", "serve", "", "ASK", "exec",
}

// garbageRequest returns the nth frame: of every form in turn, and each with every
// length and kind in the long run.
func garbageRequest(t tenant, n int) []byte {
	id := fmt.Sprintf("garbage-%d", n)
	valid := publishFrame(t, id)
	forms := []func(n int) []byte{
		func(n int) []byte { return valid[:n%len(valid)] }, // cut off
		func(n int) []byte { // more than is announced
			return append(valid, bytes.Repeat([]byte{byte(n)}, n%70_000)...)
		},
		func(n int) []byte { return append(valid, publishFrame(t, id+"-second")...) },
		func(n int) []byte { // too long, or almost
			return append(binary.BigEndian.AppendUint32(nil, uint32(maxRequestFrame-64+n)), append([]byte{'Q'}, make([]byte, 64<<10)...)...)
		},
		func(n int) []byte { return requestFrame('Q', bytes.Repeat([]byte{' '}, maxRequestFrame-64+n%128)) },
		func(n int) []byte { return []byte{0xff, 0xff, 0xff, byte(n), 'Q', '{', '}'} },
		func(n int) []byte { return requestFrame(byte(n), valid[5:]) }, // every kind
		func(n int) []byte { return requestFrame('H', fmt.Appendf(nil, `{"version":%d,"nonce":"AAAA"}`, n-2)) },
		func(n int) []byte { return askFrame(serverOps[n%len(serverOps)], id, "event.publish", "{}", nil) },
		func(n int) []byte { return requestFrame('Q', bytes.Repeat([]byte("["), n*100%60_000)) },
		func(n int) []byte { return requestFrame('Q', []byte(`{"op":"ask","ask":null}`)[:n%24]) },
		func(n int) []byte { return askFrame("ask", id, fmt.Sprintf("unknown.%d", n), "{}", nil) },
		func(n int) []byte {
			return askFrame("ask", strings.Repeat("x", n%300), strings.Repeat("y", n%70), "{}", nil)
		},
		func(n int) []byte { return askFrame("ask", id, "event.publish", strings.Repeat("[", n*97%80_000), nil) },
		func(n int) []byte { // for another claim, and as a hook of the server
			body := `{"type":"custom.attack","claim":"another","tenant":"another","data":{"marker":"forged"}}`
			return askFrame("ask", id, "event.publish", body, map[string]any{"hook": true, "run": "another", "fence": n})
		},
		func(n int) []byte {
			return askFrame("ask", id, "claim", "{}", map[string]any{"hook": true, "run": "forged"})
		},
	}
	return forms[n%len(forms)](n / len(forms))
}
