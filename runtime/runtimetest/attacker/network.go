package main

import (
	"errors"
	"net"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ports that attacks use: the numbers are the message.
const (
	waitPort   = "127.0.0.1:47110"
	listenPort = "0.0.0.0:47111"
	orphanPort = "127.0.0.1:47112"
)

func networkAttacks() []attack {
	startsChild := func(name string) func(tenant) error {
		return func(t tenant) error { return t.startChild(name) }
	}
	return []attack{
		{Name: "time-wait", Listed: true, Text: "close connections from ports whose numbers are the message", run: timeWait, seen: seenPorts},
		{Name: "half-open", Text: "leave connections of which one end does not read and one is closed", run: startsChild("half-open"), seen: seenPorts},
		{Name: "listen", Text: "leave a listener, its queue full", run: startsChild("listen"), seen: seenPorts},
		{Name: "reuse-port", Text: "leave listeners that share ports with the next tenant's", run: startsChild("reuse-port"), seen: seenPorts},
		{Name: "udp", Text: "leave datagrams in the queues of bound and joined sockets", run: startsChild("udp"), seen: seenPorts},
		{Name: "flow-label", Text: "lease flow labels of IPv6, which last longer than their socket", run: flowLabel, seen: seenLabels},
		{Name: "interfaces", Text: "change addresses, routes and interfaces", run: interfaces},
		{Name: "tcp-metrics", Text: "leave what the kernel has learned of a peer: metrics and fast open", run: tcpMetrics},
	}
}

func networkChildren() map[string]func(t tenant, ready func()) {
	return map[string]func(t tenant, ready func()){
		"half-open":  halfOpen,
		"listen":     listenOn,
		"reuse-port": reusePort,
		"udp":        udp,
	}
}

// timeWait closes the connection first, at the port that listens.
func timeWait(tenant) error {
	l, err := net.Listen("tcp", waitPort)
	if err != nil {
		return err
	}
	defer l.Close()
	for range 3 {
		c, err := net.Dial("tcp", waitPort)
		if err != nil {
			return err
		}
		s, err := l.Accept()
		if err != nil {
			return err
		}
		s.Close()
		_, _ = c.Read(make([]byte, 1))
		c.Close()
	}
	return nil
}

func halfOpen(t tenant, ready func()) {
	l, err := net.Listen("tcp", orphanPort)
	if err != nil {
		return
	}
	for range 4 {
		c, err := net.Dial("tcp", orphanPort)
		if err != nil {
			return
		}
		s, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.(*net.TCPConn).SetWriteBuffer(1 << 20)
		_ = unixNonblock(c, []byte(strings.Repeat(t.marker, 4000)))
		_ = s.(*net.TCPConn).CloseWrite()
	}
	ready()
	hang()
}

// unixNonblock writes as much as the buffer holds.
func unixNonblock(c net.Conn, b []byte) error {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { _, _ = unix.Write(int(fd), b) })
}

func listenOn(_ tenant, ready func()) {
	if _, err := net.Listen("tcp", listenPort); err != nil {
		return
	}
	for range 200 {
		if _, err := net.Dial("tcp", listenPort); err != nil {
			break
		}
	}
	ready()
	hang()
}

func reusePort(_ tenant, ready func()) {
	for range 4 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		_ = unix.Bind(fd, &unix.SockaddrInet4{Port: 47111})
		_ = unix.Listen(fd, 8)
	}
	ready()
	hang()
}

func udp(t tenant, ready func()) {
	c, err := net.ListenPacket("udp", "127.0.0.1:47113")
	if err != nil {
		return
	}
	_, _ = c.WriteTo([]byte(t.marker), c.LocalAddr())
	_, _ = net.ListenMulticastUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(239, 1, 2, 3), Port: 47114})
	ready()
	hang()
}

// seenPorts checks the ports, and binds those that the next tenant might use.
func seenPorts(tenant) []string {
	var seen []string
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6", "igmp"} {
		b, _ := os.ReadFile("/proc/net/" + name)
		for line := range strings.Lines(string(b)) {
			for _, port := range []string{":B806", ":B807", ":B808", ":B809", ":B80A", "030201EF"} {
				if strings.Contains(line, port) {
					seen = append(seen, "/proc/net/"+name+" has a line of the attacker: "+strings.TrimSpace(line))
				}
			}
		}
	}
	for _, port := range []int{47110, 47111, 47112} {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			continue
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port}); errors.Is(err, unix.EADDRINUSE) {
			seen = append(seen, "a port cannot be bound")
		}
		unix.Close(fd)
	}
	return seen
}

// flowLabel is struct in6_flowlabel_req of <linux/in6.h>.
func flowLabel(tenant) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request := struct {
		dst             [16]byte
		label           uint32
		action, share   uint8
		flags           uint16
		expires, linger uint16
		pad             uint32
	}{label: 0xe7c20500, share: 255, flags: 1, expires: 60, linger: 60}
	request.dst[15] = 1
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.IPPROTO_IPV6, 32, ptr(&request), unsafe.Sizeof(request), 0)
	return asError(errno)
}

func seenLabels(tenant) []string {
	b, err := os.ReadFile("/proc/net/ip6_flowlabel")
	if err == nil && strings.Count(string(b), "\n") > 1 {
		return []string{"/proc/net/ip6_flowlabel has a label: " + strings.TrimSpace(string(b))}
	}
	return nil
}

// interfaces requests by netlink what needs a capability.
func interfaces(tenant) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// RTM_SETLINK: the loopback interface, down.
	message := struct {
		length      uint32
		kind, flags uint16
		seq, pid    uint32
		family, pad uint8
		device      uint16
		index       int32
		iflags      uint32
		change      uint32
	}{length: 32, kind: unix.RTM_SETLINK, flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK, index: 1, change: 1}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&message)), 32)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < 20 {
		return errors.Join(err, errNothing)
	}
	return asError(unix.Errno(-*(*int32)(unsafe.Pointer(&answer[16]))))
}

func tcpMetrics(tenant) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	all := []error{
		unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno"),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 5),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 5),
	}
	return anySucceeded(all...)
}
