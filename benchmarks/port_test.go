package benchmarks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// portRoute is a way to a program in a container.
type portRoute struct{ name, address, path string }

// newPortRoutes claims containers with a program that serves HTTP, and returns the
// ways to each: through the server, and directly.
func newPortRoutes(b *testing.B, count int) (used []usedClaim, proxied, direct []portRoute) {
	b.Helper()
	const port = 8080
	used = newUsedClaims(b, "[/box, web, ':8080']\nports: [8080]", count)
	for _, u := range used {
		got, err := u.GetClaim(b.Context(), u.claim)
		require.NoError(b, err)
		proxied = append(proxied, portRoute{"proxy", u.address, fmt.Sprintf("/v1/claims/%s/ports/%d/", u.claim, port)})
		direct = append(direct, portRoute{"direct", net.JoinHostPort(got.Endpoint.Host, strconv.Itoa(port)), "/"})
		last := direct[len(direct)-1]
		require.Eventually(b, func() bool { return last.get(http.DefaultClient) == nil }, 10*time.Second, 50*time.Millisecond)
	}
	return used, proxied, direct
}

// get sends a request and reads the response.
func (r portRoute) get(c *http.Client) error {
	resp, err := c.Get("http://" + r.address + r.path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.name, resp.Status)
	}
	return err
}

// portSocket is a WebSocket to a program that returns what it receives.
type portSocket struct {
	net.Conn
	r *bufio.Reader
}

// open opens a WebSocket. What follows are bytes on every way: nothing between the
// client and the program reads the frames.
func (r portRoute) open(ctx context.Context) (*portSocket, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	s := &portSocket{conn, bufio.NewReader(conn)}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", r.path, r.address)
	if err == nil {
		var resp *http.Response
		if resp, err = http.ReadResponse(s.r, nil); err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
			text, _ := io.ReadAll(resp.Body) // the status is the error
			err = fmt.Errorf("%s: %s: %s", r.name, resp.Status, text)
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// echo sends a message and waits until it has come back.
func (s *portSocket) echo() error {
	var message [128]byte
	if _, err := s.Write(message[:]); err != nil {
		return err
	}
	_, err := io.ReadFull(s.r, message[:])
	return err
}

// newPortClient returns a client that keeps a connection for each of its callers.
func newPortClient(b *testing.B, callers int) *http.Client {
	b.Helper()
	t := &http.Transport{MaxIdleConnsPerHost: callers}
	b.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// BenchmarkPorts compares requests to a program in a container through the server
// with direct ones: in turn by one caller, and then by many at once, each way for
// itself; and messages over one WebSocket each, in turn.
func BenchmarkPorts(b *testing.B) {
	_, proxied, direct := newPortRoutes(b, 1)
	routes := []portRoute{proxied[0], direct[0]}
	b.Run("one", func(b *testing.B) {
		c, took := newPortClient(b, 1), map[string][]time.Duration{}
		for b.Loop() {
			for _, r := range routes {
				took[r.name] = append(took[r.name], timed(b, func() error { return r.get(c) }))
			}
		}
		for name, all := range took {
			reportTimes(b, name, all)
			b.ReportMetric(float64(len(all))/total(all).Seconds(), name+"/s")
		}
	})
	b.Run("sixteen", func(b *testing.B) {
		const callers, each = 16, 100
		c, took := newPortClient(b, callers), map[string][]time.Duration{}
		for b.Loop() {
			for _, r := range routes {
				took[r.name] = append(took[r.name], timed(b, func() error { return callConcurrently(callers, each, func() error { return r.get(c) }) }))
			}
		}
		for name, all := range took {
			b.ReportMetric(float64(callers*each*len(all))/total(all).Seconds(), name+"/s")
		}
	})
	b.Run("websocket", func(b *testing.B) {
		sockets, took := map[string]*portSocket{}, map[string][]time.Duration{}
		for _, r := range routes {
			s, err := r.open(b.Context())
			require.NoError(b, err)
			defer s.Close()
			sockets[r.name] = s
		}
		for b.Loop() {
			for name, s := range sockets {
				took[name] = append(took[name], timed(b, s.echo))
			}
		}
		for name, all := range took {
			reportTimes(b, name, all)
		}
	})
}

// reportTimes reports the median and the 99th percentile.
func reportTimes(b *testing.B, name string, all []time.Duration) {
	b.Helper()
	b.ReportMetric(ms(quantile(all, .5)), name+"-p50-ms")
	b.ReportMetric(ms(quantile(all, .99)), name+"-p99-ms")
}

// total returns the sum of durations.
func total(all []time.Duration) (sum time.Duration) {
	for _, d := range all {
		sum += d
	}
	return sum
}

// callConcurrently makes callers call do, each so many times.
func callConcurrently(callers, each int, do func() error) error {
	var g errgroup.Group
	for range callers {
		g.Go(func() error {
			for range each {
				if err := do(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// BenchmarkPortConnections opens 250 WebSockets to each of two tenants' claims,
// which stay open, and sends a message over each. It reports the server's memory before them and
// at most, and the time of a request before them and while they are open.
func BenchmarkPortConnections(b *testing.B) {
	const each = 250
	used, routes, _ := newPortRoutes(b, 2)
	c, pid := newPortClient(b, 1), used[0].pid
	for b.Loop() {
		reportTimes(b, "request-before", timeRequests(b, routes[1], c))
		before := residentBefore(b, pid)
		sockets := make([]*portSocket, 2*each)
		opened := timed(b, func() error {
			var g errgroup.Group
			g.SetLimit(10)
			for i := range sockets {
				g.Go(func() (err error) { sockets[i], err = routes[i%2].open(b.Context()); return err })
			}
			return g.Wait()
		})
		b.ReportMetric(ms(opened)/(2*each), "ms/opened")
		messages := timed(b, func() error {
			var g errgroup.Group
			for _, s := range sockets {
				g.Go(s.echo)
			}
			return g.Wait()
		})
		b.ReportMetric(ms(messages), "a-message-each-ms")
		reportTimes(b, "request-open", timeRequests(b, routes[1], c))
		reportResident(b, pid, before, 2*each)
		for _, s := range sockets {
			require.NoError(b, s.echo(), "each is open until here")
			require.NoError(b, s.Close())
		}
	}
}

// BenchmarkPortUnread fills 200 WebSockets of a claim whose client never reads, so
// that the program in the container reads no more either. It reports what each took,
// the server's memory before and at most, and the time of a request to another
// tenant's claim:
// before, while they are filled, and while they are full.
func BenchmarkPortUnread(b *testing.B) {
	const count = 200
	used, routes, _ := newPortRoutes(b, 2)
	c, pid := newPortClient(b, 1), used[0].pid
	for b.Loop() {
		reportTimes(b, "request-before", timeRequests(b, routes[1], c))
		before := residentBefore(b, pid)
		sockets, written := make([]*portSocket, count), make([]int64, count)
		for i := range sockets {
			var err error
			sockets[i], err = routes[0].open(b.Context())
			require.NoError(b, err)
		}
		var fill errgroup.Group
		for i, s := range sockets {
			fill.Go(func() (err error) { written[i], err = fillSocket(s); return err })
		}
		reportTimes(b, "request-filling", timeRequests(b, routes[1], c))
		require.NoError(b, fill.Wait())
		reportTimes(b, "request-full", timeRequests(b, routes[1], c))
		var sum int64
		for _, n := range written {
			sum += n
		}
		b.ReportMetric(float64(sum)/count/1024, "KiB-taken/connection")
		reportResident(b, pid, before, count)
		for _, s := range sockets {
			require.NoError(b, s.Close())
		}
	}
}

// fillSocket writes until nothing was taken for three seconds, and returns how much
// was: most of it is in the kernel's buffers on the way.
func fillSocket(s *portSocket) (written int64, err error) {
	if tcp, ok := s.Conn.(*net.TCPConn); ok {
		err = errors.Join(tcp.SetReadBuffer(64<<10), tcp.SetWriteBuffer(64<<10))
	}
	for block := make([]byte, 16<<10); err == nil; {
		if err = s.SetWriteDeadline(time.Now().Add(3 * time.Second)); err != nil {
			return written, err
		}
		var n int
		n, err = s.Write(block)
		written += int64(n)
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return written, err
}

// timeRequests returns the times of requests, one after the other.
func timeRequests(b *testing.B, r portRoute, c *http.Client) (took []time.Duration) {
	b.Helper()
	for range 1000 {
		took = append(took, timed(b, func() error { return r.get(c) }))
	}
	return took
}

// residentBefore returns the resident memory of a process in MB, and begins to record
// the most that it has.
func residentBefore(b *testing.B, pid int) float64 {
	b.Helper()
	require.NoError(b, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200))
	return readStatus(b, pid, "VmRSS:")
}

// reportResident reports the resident memory of a process, and how much more than
// before it had at most for each connection.
func reportResident(b *testing.B, pid int, before float64, connections int) {
	b.Helper()
	most := readStatus(b, pid, "VmHWM:")
	b.ReportMetric(before, "server-before-MB")
	b.ReportMetric(most, "server-most-MB")
	b.ReportMetric((most-before)*1000/float64(connections), "server-KB/connection")
}

// readStatus returns a size of a process in MB.
func readStatus(b *testing.B, pid int, name string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	_, rest, found := strings.Cut(string(text), name)
	require.True(b, found, name)
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	require.NoError(b, err)
	return kib * 1024 / 1e6
}
