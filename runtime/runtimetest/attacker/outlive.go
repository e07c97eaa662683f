package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outliveAttacks are of several classes: what could outlive every process of
// the container because the kernel keeps it for a user, a network or the
// machine.
func outliveAttacks() map[string][]attack {
	startsChild := func(name string) func(tenant) error {
		return func(t tenant) error { return t.startChild(name) }
	}
	return map[string][]attack{
		"network": {
			{Name: "neighbours", Listed: true, Text: "have the kernel learn neighbours whose addresses are the message", run: neighbours, seen: seenNeighbours},
			{Name: "network-counters", Listed: true, Text: "raise counters of the network to the message", run: raiseCounters, seen: seenCounters},
			{Name: "sysctls", Text: "write settings of the network, of IPC and of message queues", run: sysctls},
		},
		"IPC": {
			{Name: "keyring-persistent", Text: "leave a key in the user's persistent keyring and in one with a name", run: persistentKeyring, seen: seenPersistent},
			{Name: "huge-memory", Text: "leave memory, shared memory and memory files of huge pages", run: hugeMemory},
		},
		"descriptors": {
			{Name: "bpf", Text: "leave BPF maps, programs on sockets and pinned names", run: startsChild("bpf"), seen: seenPinned},
			{Name: "page-faults", Text: "leave a process whose arguments and environment cannot be read without waiting for it", run: startsChild("page-faults")},
			{Name: "timers", Text: "leave timers of every clock, that signal and that wake", run: startsChild("timers")},
		},
	}
}

func outliveChildren() map[string]func(t tenant, ready func()) {
	return map[string]func(t tenant, ready func()){"bpf": keepBPF, "page-faults": pageFaults, "timers": keepTimers}
}

// The message is in the last byte of addresses, and in a counter.
const (
	neighbourByte = 0xd3
	counterValue  = 4711
)

// neighbours sends to addresses of each of the container's networks.
func neighbours(tenant) error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	all := []error{errNothing}
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.To4() == nil {
			continue
		}
		ip := append(net.IP(nil), n.IP.To4()...)
		ip[3] = neighbourByte
		c, err := net.Dial("udp", net.JoinHostPort(ip.String(), "9"))
		if err == nil {
			_, err = c.Write([]byte("x"))
			c.Close()
		}
		all = append(all, err)
	}
	return anySucceeded(all...)
}

func seenNeighbours(tenant) []string {
	b, _ := os.ReadFile("/proc/net/arp")
	for line := range strings.Lines(string(b)) {
		if address, _, _ := strings.Cut(line, " "); strings.HasSuffix(address, fmt.Sprintf(".%d", neighbourByte)) {
			return []string{"a neighbour is known: " + strings.TrimSpace(line)}
		}
	}
	return nil
}

// raiseCounters sends datagrams to a port of its own that no process listens on.
func raiseCounters(tenant) error {
	c, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		return err
	}
	defer c.Close()
	for range 3 * counterValue { // every other one only reports that the last reached no port
		_, _ = c.Write([]byte("x"))
	}
	return nil
}

func seenCounters(tenant) []string {
	b, _ := os.ReadFile("/proc/net/snmp")
	for line := range strings.Lines(string(b)) {
		var received, nowhere int
		if n, _ := fmt.Sscanf(line, "Udp: %d %d", &received, &nowhere); n == 2 && nowhere >= counterValue {
			return []string{fmt.Sprintf("%d datagrams came to no port", nowhere)}
		}
	}
	return nil
}

// sysctls writes those that belong to a namespace: no attack may change what
// belongs to the machine.
func sysctls(tenant) error {
	var all []error
	for name, value := range map[string]string{
		"net/ipv4/ping_group_range": "0 4711", "net/ipv4/ip_unprivileged_port_start": "47", "net/ipv4/ip_local_reserved_ports": "47110",
		"net/ipv4/ip_default_ttl": "47", "net/ipv4/tcp_fin_timeout": "47", "net/ipv4/tcp_keepalive_time": "47", "net/core/somaxconn": "47",
		"net/ipv6/conf/lo/disable_ipv6": "1", "net/unix/max_dgram_qlen": "47", "kernel/shmmni": "47", "kernel/msgmax": "47", "kernel/sem": "47 47 47 47",
		"kernel/domainname": "hostile", "fs/mqueue/msg_max": "47", "fs/mqueue/queues_max": "47", "net/netfilter/nf_conntrack_generic_timeout": "47",
	} {
		f, err := os.OpenFile("/proc/sys/"+name, os.O_WRONLY, 0) // creates none
		if err == nil {
			_, err = f.WriteString(value)
			f.Close()
		}
		all = append(all, err)
	}
	return anySucceeded(all...)
}

// Constants of <linux/keyctl.h>.
const (
	keyctlGetPersistent = 22
	keyctlJoinSession   = 1
	processKeyring      = ^uintptr(1) // KEY_SPEC_PROCESS_KEYRING
)

func persistentKeyring(t tenant) error {
	ring, _, errno := unix.Syscall6(unix.SYS_KEYCTL, keyctlGetPersistent, ^uintptr(0), processKeyring, 0, 0, 0)
	err := asError(errno)
	if err == nil {
		_, err = unix.AddKey("user", "attacker-persistent", []byte(t.marker), int(ring))
	}
	name, _ := unix.BytePtrFromString("attacker-session")
	_, _, errno = unix.Syscall(unix.SYS_KEYCTL, keyctlJoinSession, uintptr(unsafe.Pointer(name)), 0)
	err2 := asError(errno)
	if err2 == nil {
		_, err2 = unix.AddKey("user", "attacker-persistent", []byte(t.marker), unix.KEY_SPEC_SESSION_KEYRING)
	}
	return anySucceeded(err, err2)
}

func seenPersistent(tenant) []string {
	ring, _, errno := unix.Syscall6(unix.SYS_KEYCTL, keyctlGetPersistent, ^uintptr(0), processKeyring, 0, 0, 0)
	if errno == 0 {
		if _, err := unix.KeyctlSearch(int(ring), "user", "attacker-persistent", 0); err == nil {
			return []string{"the persistent keyring holds a key"}
		}
	}
	return nil
}

func hugeMemory(t tenant) error {
	fd, err := unix.MemfdCreate(t.marker, unix.MFD_HUGETLB)
	if err == nil {
		err = unix.Ftruncate(fd, 2<<20)
		unix.Close(fd)
	}
	_, err2 := unix.SysvShmGet(ipcKey+7, 2<<20, unix.IPC_CREAT|0o666|0o4000 /* SHM_HUGETLB */)
	m, err3 := unix.Mmap(-1, 0, 2<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB)
	if err3 == nil {
		err3 = unix.Munmap(m)
	}
	return anySucceeded(err, err2, err3)
}

// keepBPF creates a map and pins it, and attaches programs to sockets, which needs
// no privilege in their classic form.
func keepBPF(_ tenant, ready func()) {
	attr := struct{ kind, key, value, entries, flags uint32 }{2, 4, 64, 1, 0} // an array
	fd, _, errno := unix.Syscall(unix.SYS_BPF, 0, ptr(&attr), unsafe.Sizeof(attr))
	if errno == 0 {
		path, _ := unix.BytePtrFromString("/sys/fs/bpf/attacker")
		pin := struct {
			path     uint64
			fd, flag uint32
		}{uint64(uintptr(unsafe.Pointer(path))), uint32(fd), 0}
		_, _, _ = unix.Syscall(unix.SYS_BPF, 6, ptr(&pin), unsafe.Sizeof(pin))
	}
	_ = os.Mkdir("/sys/fs/bpf/attacker", 0o755)
	accept := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff}}
	program := unix.SockFprog{Len: 1, Filter: &accept[0]}
	if s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); err == nil {
		_ = unix.SetsockoptSockFprog(s, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
		_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1)
	}
	ready()
	hang()
}

func seenPinned(tenant) []string {
	if _, err := os.Lstat("/sys/fs/bpf/attacker"); err == nil {
		return []string{"/sys/fs/bpf/attacker is there"}
	}
	return nil
}

// pageFaults releases the pages that hold its arguments and environment, and
// handles no fault on them: a process that reads them in /proc blocks.
func pageFaults(_ tenant, ready func()) {
	const api, register = 0xc018aa3f, 0xc020aa00 // UFFDIO_API, UFFDIO_REGISTER
	begin := stackOfArguments()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno == 0 && begin != 0 {
		hello := [3]uint64{0xaa, 0, 0}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, api, ptr(&hello))
		pages := [4]uint64{begin &^ 4095, 4096, 1 /* missing pages */, 0}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, register, ptr(&pages))
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(pages[0]), 4096, unix.MADV_DONTNEED)
	}
	ready()
	hang()
}

// stackOfArguments returns arg_start of /proc/PID/stat; 0 if it is not available.
func stackOfArguments() uint64 {
	b, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var begin uint64
	if len(fields) > 45 {
		_, _ = fmt.Sscan(fields[45], &begin)
	}
	return begin
}

func keepTimers(_ tenant, ready func()) {
	for clock := range 12 {
		var id int32
		event := [16]int32{0, 0, int32(unix.SIGURG), 0} // SIGEV_SIGNAL, ignored
		if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, uintptr(clock), ptr(&event), ptr(&id)); errno == 0 {
			every := [4]int64{0, 1e6, 0, 1e6}
			_, _, _ = unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(id), 0, ptr(&every), 0, 0, 0)
		}
		if fd, err := unix.TimerfdCreate(clock, 0); err == nil {
			spec := unix.ItimerSpec{Interval: unix.Timespec{Nsec: 1e6}, Value: unix.Timespec{Nsec: 1e6}}
			_ = unix.TimerfdSettime(fd, 0, &spec, nil)
		}
	}
	ready()
	hang()
}
