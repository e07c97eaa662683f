package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// observe returns what a tenant observes. Facts are the properties of an unused
// container; the suite compares them with those of one. Seen is what cannot occur
// in one.
func observe(o order) report {
	facts := make(map[string]string)
	obs := observer{facts: facts, hasForeignMarker: o.hasForeignMarker}
	obs.files()
	obs.self()
	obs.processes()
	obs.kernel()
	r := report{Facts: facts, Seen: obs.seen}
	if o.Own != "" {
		r.Seen = append(r.Seen, seenWithoutMarker()...)
	}
	if a, ok := findAttack(o.Attack); ok && a.seen != nil {
		r.Seen = append(r.Seen, a.seen(tenant{o.Marker})...)
	}
	return r
}

// observer collects observations.
type observer struct {
	facts            map[string]string
	hasForeignMarker func(text string) bool // reports whether it has another tenant's marker
	seen             []string
}

func (l *observer) fact(key, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.facts[key] = text
	l.scan(key, key, text)
}

// scan searches for what earlier tenants have left.
func (l *observer) scan(where string, texts ...string) {
	if slices.ContainsFunc(texts, l.hasForeignMarker) {
		l.seen = append(l.seen, where+" holds the marker of a tenant before")
	}
}

// content records a file's whole text as a fact.
func (l *observer) content(path string) {
	b, err := readSome(path)
	if err == nil {
		l.fact("text "+path, "%s", strings.TrimSpace(string(b)))
	}
}

// processes records all but this one and those that run commands. Those of the
// shim vary; what counts is what they are and what they may do.
func (l *observer) processes() {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	counts := make(map[string]int)
	for _, dir := range dirs {
		if dir == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		cmdline, err := os.ReadFile(dir + "/cmdline")
		status, err2 := os.ReadFile(dir + "/status")
		if err != nil || err2 != nil {
			continue // it has exited
		}
		l.scan(dir, string(cmdline), string(status))
		if environ, err := os.ReadFile(dir + "/environ"); err == nil {
			l.scan(dir+"/environ", string(environ))
		}
		name := strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))
		word, _, _ := strings.Cut(name, " ")
		switch {
		case filepath.Base(word) == "shim" || filepath.Base(word) == "hostler-shim":
			name = "shim"
		case name == "/attacker order" || name == "/attacker look" || name == "/attacker visit":
			continue
		}
		key := fmt.Sprintf("process %q uid %s permitted %s state %s", name, field(status, "Uid"), field(status, "CapPrm"), strings.Trim(field(status, "State"), "RSDI (runigslepdk)"))
		counts[key]++
	}
	for key, n := range counts {
		if strings.Contains(key, `"shim"`) {
			n = 1
		}
		l.fact(key, "%d", n)
	}
}

// field returns one value of /proc/PID/status.
func field(status []byte, name string) string {
	_, rest, _ := strings.Cut("\n"+string(status), "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.Join(strings.Fields(value), " ")
}

// kernel records what the kernel keeps for the container in addition to files.
func (l *observer) kernel() {
	for _, path := range []string{
		"/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem",
		"/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6", "/proc/net/raw", "/proc/net/icmp", "/proc/net/packet",
		"/proc/net/route", "/proc/net/if_inet6", "/proc/net/igmp", "/proc/net/ip6_flowlabel", "/proc/net/ptype",
		"/proc/sys/fs/mqueue/msg_default", "/proc/sys/fs/mqueue/queues_max", "/proc/sys/kernel/shmmni", "/proc/sys/kernel/sem",
		"/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/net/ipv4/ip_local_port_range",
		"/proc/sys/net/ipv4/ip_local_reserved_ports", "/proc/sys/net/ipv4/ping_group_range", "/proc/sys/net/ipv4/ip_unprivileged_port_start",
	} {
		l.content(path)
	}
	l.unixSockets()
	l.mounts()
	for _, path := range []string{"/proc", "/proc/net", "/proc/self/net", "/proc/sysvipc", "/proc/sys/fs", "/proc/sys/net/ipv4"} {
		l.modes(path)
	}
	hostname, _ := os.Hostname()
	l.fact("hostname", "%s", hostname)
}

// unixSockets counts those with a name.
func (l *observer) unixSockets() {
	b, _ := os.ReadFile("/proc/net/unix")
	names := make(map[string]int)
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) > 7 && fields[3] == "00010000" { // it listens
			name := fields[7]
			if strings.HasPrefix(name, "/proc/self/fd/") {
				name = "of the shim"
			}
			names[name]++
		}
	}
	for name, n := range names {
		l.fact("listener "+name, "%d", n)
	}
}

func (l *observer) mounts() {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	var all []string
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) > 6 {
			all = append(all, strings.Join(fields[3:6], " ")+" "+strings.Join(fields[len(fields)-3:], " "))
		}
	}
	slices.Sort(all)
	l.fact("mounts", "%s", strings.Join(all, "\n"))
}

// modes records those of the kernel's own files, except for processes.
func (l *observer) modes(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name()[0] >= '0' && e.Name()[0] <= '9' {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		l.fact("mode "+dir+"/"+e.Name(), "%s %s", info.Mode(), owner(info))
	}
}

// environment returns that of this process, without the suite's variables.
func environment() []string {
	all := slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "NONCE=") || strings.HasPrefix(s, "HOSTLER_MAIN_PID=") // different each time
	})
	slices.Sort(all)
	return all
}
