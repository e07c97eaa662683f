package request

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// nameServer is a DNS server of the tests.
type nameServer struct {
	mu      sync.Mutex // guards the fields below
	names   map[string][]string
	queries map[string]int // by name, for an address of type A
}

// serveDNS starts a nameServer and returns a resolver that queries it. The
// addresses of a name that are separated by "then" are answers to successive
// queries of one type.
func serveDNS(t *testing.T, names map[string][]string) (*nameServer, *net.Resolver) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &nameServer{names: names, queries: map[string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 1024); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := s.answer(buf[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return s, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[name]
}

func (s *nameServer) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	addrs, ok := s.addresses(name, q.Type == dnsmessage.TypeA)
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addrs {
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
		addr := netip.MustParseAddr(text)
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// addresses returns what the server answers next for a name.
func (s *nameServer) addresses(name string, isA bool) ([]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs, ok := s.names[name]
	n := s.queries[name]
	if isA {
		s.queries[name]++
	}
	var answers [][]string
	answers = append(answers, nil)
	for _, a := range addrs {
		if a == "then" {
			answers = append(answers, nil)
			continue
		}
		answers[len(answers)-1] = append(answers[len(answers)-1], a)
	}
	return answers[min(n, len(answers)-1)], ok
}
