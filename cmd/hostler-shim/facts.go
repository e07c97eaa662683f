package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// facts are the state of a container that is not a file on a volume or on its
// root filesystem, that outlives processes, and that a process may change: what
// later processes inherit from this one, and what the namespaces hold. The keys
// are names for messages.
type facts map[string]string

// ownFacts are the facts of this process. machineFacts are those of a container
// that is more than a directory.
var (
	ownFacts     = []func(facts) error{limitFacts, processFacts, schedulingFacts}
	machineFacts = []func(facts) error{namespaceFacts, mountFacts, networkFacts, sysctlFacts, runDirFacts}
)

// readFacts reads all facts. An error means that the container cannot be
// verified as clean.
func (s *supervisor) readFacts() (facts, error) {
	sources := ownFacts
	if !s.config.HostProcess {
		sources = slices.Concat(ownFacts, machineFacts)
	}
	f := make(facts)
	for _, read := range sources {
		if err := read(f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// compare returns an error for the first fact that has changed.
func (f facts) compare(now facts) error {
	all := maps.Clone(f)
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f[name] != now[name] {
			was, is := firstDifference(f[name], now[name])
			return fmt.Errorf("%w: %s was %q, is now %q", runtime.ErrWipeUnverified, name, was, is)
		}
	}
	return nil
}

// firstDifference returns the first line that differs between two texts,
// truncated to a length that an event can hold.
func firstDifference(a, b string) (string, string) {
	const maxLen = 120
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	i := 0
	for i < len(as)-1 && i < len(bs)-1 && as[i] == bs[i] {
		i++
	}
	return as[i][:min(len(as[i]), maxLen)], bs[i][:min(len(bs[i]), maxLen)]
}

// resourceLimits is the number of resource limits in Linux.
const resourceLimits = 16

// limitFacts reads the limits that every process here inherits.
func limitFacts(f facts) error {
	for kind := range resourceLimits {
		var limit unix.Rlimit
		if err := unix.Prlimit(0, kind, nil, &limit); err != nil {
			return fmt.Errorf("read init's limits: %w", err)
		}
		f["the limit "+strconv.Itoa(kind)+" of init"] = fmt.Sprintf("%d %d", limit.Cur, limit.Max)
	}
	return nil
}

// procFiles are the files of /proc with the state that a process passes on to
// others, and statusFields are such fields of its status.
var (
	procFiles    = []string{"oom_score_adj", "coredump_filter", "autogroup", "cgroup", "loginuid", "uid_map", "gid_map"}
	statusFields = []string{
		"Umask", "Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "Seccomp_filters", "SigIgn",
		"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "THP_enabled",
		"Speculation_Store_Bypass", "SpeculationIndirectBranch",
	}
)

func processFacts(f facts) error {
	for _, name := range procFiles {
		text, err := os.ReadFile("/proc/self/" + name)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("read init's state: %w", err)
		}
		f["init's "+name] = string(text)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read init's state: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains(statusFields, name) {
			f["init's "+name] = strings.TrimSpace(value)
		}
	}
	dir, err := os.Getwd()
	session, _ := unix.Getsid(0)
	group, _ := unix.Getpgid(0)
	slack, err2 := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0) // the file of another thread is not accessible
	f["init's timer slack"] = fmt.Sprintln(slack, err2)
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	bits, _ := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	f["init's process state"] = fmt.Sprintln(dir, err, session, group, dumpable, bits)
	return nil
}

// schedulingFacts reads the priorities of all threads, because a new process or
// thread inherits those of the thread that starts it. All threads have the
// same.
func schedulingFacts(f facts) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("read init's threads: %w", err)
	}
	seen := make(map[string]bool)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		text, err := scheduling(id)
		if errors.Is(err, unix.ESRCH) {
			continue // the thread has exited
		}
		if err != nil {
			return fmt.Errorf("read init's threads: %w", err)
		}
		seen[text] = true
	}
	f["the scheduling of init"] = strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
	return nil
}

// scheduling returns the attributes that the children of a thread inherit.
func scheduling(thread int) (string, error) {
	attr, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		return "", err
	}
	var processors unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &processors); err != nil {
		return "", err
	}
	const whoProcess = 1 // IOPRIO_WHO_PROCESS of <linux/ioprio.h>
	io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, whoProcess, uintptr(thread), 0)
	if errno == unix.ESRCH {
		return "", errno
	}
	return fmt.Sprintf("policy %d flags %x nice %d priority %d utilization %d to %d processors %x io %d",
		attr.Policy, attr.Flags, attr.Nice, attr.Priority, attr.Util_min, attr.Util_max, processors, io), nil
}

// namespaceFacts reads the namespaces and the host name.
func namespaceFacts(f facts) error {
	for _, kind := range []string{"net", "ipc", "mnt", "uts", "pid", "cgroup", "user"} {
		name, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("read a namespace: %w", err)
		}
		f["the namespace "+kind] = name
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	f["the host name"] = unix.ByteSliceToString(name.Nodename[:]) + "." + unix.ByteSliceToString(name.Domainname[:])
	return nil
}

// mountFacts reads the mounts. Renaming a directory above a mount changes its
// path.
func mountFacts(f facts) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	f["the list of mounts"] = string(text)
	all, err := mounts()
	if err != nil {
		return err
	}
	queues := false
	for _, m := range all {
		queues = queues || m.fsType == "mqueue"
		if m.holdsKernelObjects() {
			return fmt.Errorf("%w: processes can create kernel objects below %s, a filesystem of type %s", runtime.ErrWipeUnverified, m.path, m.fsType)
		}
	}
	if !queues && hasMessageQueues() {
		return fmt.Errorf("%w: the message queues cannot be listed", runtime.ErrWipeUnverified)
	}
	return nil
}

// hasMessageQueues reports whether the kernel has message queues. A kernel may
// have them even if /proc does not list them, such as gVisor.
func hasMessageQueues() bool {
	if _, err := os.Stat("/proc/sys/fs/mqueue"); err == nil {
		return true
	}
	name, err := unix.BytePtrFromString("hostler-" + rand.Text())
	if err != nil {
		return true
	}
	_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0, 0)
	return errno == unix.ENOENT // no queue has that name
}

// networkFacts reads the modes and owners of the network's files in /proc. They
// belong to the network namespace, and an owner can change them.
func networkFacts(f facts) error {
	var list strings.Builder
	err := walkModes("/proc/self/net", &list)
	f["the modes in /proc/net"] = list.String()
	if err != nil {
		return err
	}
	return flowLabelFacts(f)
}

// flowLabelFacts reads the leased IPv6 flow labels: a lease outlives its
// socket.
func flowLabelFacts(f facts) error {
	text, err := os.ReadFile("/proc/self/net/ip6_flowlabel")
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("read flow labels: %w", err)
	}
	_, labels, _ := strings.Cut(string(text), "\n") // below the header line
	f["the flow labels"] = labels
	return nil
}

// walkModes lists the modes and owners of everything below a directory of
// /proc.
func walkModes(dir string, list *strings.Builder) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			continue // its device or table is gone
		}
		fmt.Fprintf(list, "%s %o %d %d\n", path, st.Mode, st.Uid, st.Gid)
		if e.IsDir() {
			if err := walkModes(path, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// sysctls are the settings that belong to a container's namespaces.
var sysctls = []string{"/proc/sys/net", "/proc/sys/kernel", "/proc/sys/fs/mqueue"}

// sysctlFacts reads the kernel settings that a process could change. Most
// engines mount them read-only.
func sysctlFacts(f facts) error {
	all, err := mounts()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(m mount) bool { return m.path == "/proc/sys" && !m.writable }) {
		return nil
	}
	for _, dir := range sysctls {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil // what this process may not read, no tenant may write
			}
			if info, err := d.Info(); err != nil || info.Mode()&0o222 == 0 {
				return nil
			}
			if text, err := os.ReadFile(path); err == nil && !isVolatile(path) {
				f["the setting "+path] = string(text)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isVolatile reports whether a setting changes by itself.
func isVolatile(path string) bool {
	return strings.HasPrefix(path, "/proc/sys/kernel/random/") || strings.HasSuffix(path, "/ns_last_pid")
}

// runDirFacts reads the names in the shim's own directory. Only a tenant that
// is the shim's user can reach it.
func runDirFacts(f facts) error {
	entries, err := os.ReadDir(shim.RunDir)
	if err != nil {
		return fmt.Errorf("read %s: %w", shim.RunDir, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, fmt.Sprint(e.Name(), " ", e.Type()))
	}
	f["the entries of "+shim.RunDir] = strings.Join(names, "\n")
	return nil
}
