package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newNamespaces returns the attributes of a process in new namespaces.
func newNamespaces(namespaces uintptr) *syscall.SysProcAttr {
	if isPrivileged() {
		return &syscall.SysProcAttr{Cloneflags: namespaces}
	}
	return &syscall.SysProcAttr{
		Cloneflags:  namespaces | unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

// printLeasedFlowLabel prints whether the facts differ after a flow label was
// leased and its socket was closed.
func printLeasedFlowLabel() int {
	before, after := make(facts), make(facts)
	err := flowLabelFacts(before)
	if err == nil {
		err = leaseFlowLabel(0x12345)
	}
	if err == nil {
		err = flowLabelFacts(after)
	}
	if err != nil {
		logError("lease a flow label", err)
		return exitFailed
	}
	fmt.Println("Before:", before["the flow labels"])
	fmt.Println("Differs:", errors.Is(before.compare(after), runtime.ErrWipeUnverified))
	return 0
}

// leaseFlowLabel leases a flow label for up to a minute and closes its socket,
// see struct in6_flowlabel_req of <linux/in6.h>.
func leaseFlowLabel(label uint32) error {
	const (
		manager   = 32 // IPV6_FLOWLABEL_MGR
		exclusive = 1  // IPV6_FL_S_EXCL
		create    = 1  // IPV6_FL_F_CREATE
	)
	request := struct {
		to                      [16]byte
		label                   [4]byte
		action, share           uint8
		flags, expires, lingers uint16
		_                       uint32
	}{share: exclusive, flags: create, lingers: 60}
	request.to[15] = 1
	binary.BigEndian.PutUint32(request.label[:], label)
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.IPPROTO_IPV6, manager,
		uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// A lease of a flow label outlives its socket and could identify its tenant, so
// the facts contain it.
func TestLeasedFlowLabelIsFound(t *testing.T) {
	t.Parallel()
	is := runChild(t, newNamespaces(unix.CLONE_NEWNET), "/proc/self/exe", "labels")
	require.Empty(t, is["Before"])
	require.Equal(t, "true", is["Differs"])
}

// printBaseline records the baseline of a container whose root is a temporary
// filesystem, and prints why it does not allow a second tenant.
func printBaseline() int {
	b, err := chrootBaseline(os.Args[2])
	if err != nil {
		logError("record a baseline", err)
		return exitFailed
	}
	s := newSupervisor(shim.Config{})
	s.baseline = b
	wipe := s.wipeAndCompare()
	fmt.Println("Unreliable:", errors.Is(b.files.err, errUnreliableCtime))
	fmt.Println("Refused:", errors.Is(wipe, runtime.ErrWipeUnverified) && errors.Is(wipe, errUnreliableCtime))
	return 0
}

// chrootBaseline makes a directory the root of this process and returns its
// baseline.
func chrootBaseline(root string) (*baseline, error) {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", root, "tmpfs", 0, "size=1m"),
		os.MkdirAll(filepath.Join(root, shim.RunDir), 0o755),
		os.Mkdir(filepath.Join(root, "proc"), 0o755),
		unix.Mount("/proc", filepath.Join(root, "proc"), "", unix.MS_BIND|unix.MS_REC, ""),
		unix.Chroot(root), unix.Chdir("/"))
	if err != nil {
		return nil, err
	}
	return newSupervisor(shim.Config{}).readBaseline()
}

// If a root filesystem does not record every change of a file, the baseline
// detects it, and a wipe based on it is not verified.
func TestBaselineNeedsReliableCtime(t *testing.T) {
	t.Parallel()
	is := runChild(t, newNamespaces(unix.CLONE_NEWNS), "/proc/self/exe", "baseline", t.TempDir())
	require.Equal(t, "true", is["Unreliable"])
	require.Equal(t, "true", is["Refused"])
}

// A wipe empties its targets, and compares each part of the baseline.
func TestWipeAndCompare(t *testing.T) { // not parallel: it changes this process
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(root+"/data", 0o755))
	require.NoError(t, os.Mkdir(root+"/app", 0o755))
	require.NoError(t, os.WriteFile(root+"/app/server", []byte("good"), 0o755))
	s := newSupervisor(shim.Config{HostProcess: true, Root: root, Volumes: []string{"/data"}})
	var err error
	s.baseline, err = s.readBaseline()
	require.NoError(t, err)
	require.NoError(t, s.wipeAndCompare())
	require.NoError(t, os.WriteFile(root+"/data/secret", []byte("x"), 0o600))
	require.NoError(t, s.wipeAndCompare())
	require.NoFileExists(t, root+"/data/secret")

	was := unix.Umask(0o123)
	err = s.wipeAndCompare()
	unix.Umask(was)
	require.ErrorIs(t, err, runtime.ErrWipeUnverified)
	require.ErrorContains(t, err, "Umask")

	s.halt.started = true
	require.ErrorIs(t, s.wipeAndCompare(), errHalted)

	require.NoError(t, rewrite(root+"/app/server"))
	err = s.wipeAndCompare()
	require.ErrorIs(t, err, runtime.ErrWipeUnverified)
	require.ErrorContains(t, err, "/app/server")
}

// A wipe is over when every process of the tenant has ended.
func TestWipeEndsProcesses(t *testing.T) { // not parallel: it ends the children of this process
	s := newSupervisor(shim.Config{HostProcess: true, Root: t.TempDir(), Args: []string{"true"}})
	var err error
	s.baseline, err = s.readBaseline()
	require.NoError(t, err)
	c := exec.Command("sleep", "1000")
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	require.NoError(t, s.wipe(nil))
	require.ErrorIs(t, c.Process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Once init was told to stop, it does not start the main process again: the exit
// of that one would go unnoticed.
func TestHaltedContainerIsNotRestarted(t *testing.T) {
	t.Parallel()
	s := newSupervisor(shim.Config{HostProcess: true, Args: []string{"/nonexistent"}, Workdir: "/"})
	s.halt.started = true
	require.ErrorIs(t, s.startAfterKill(), runtime.ErrTainted)
	require.Empty(t, s.main.get(), "not even tried")
}

// A container without a baseline is never verified as clean.
func TestWipeWithoutBaseline(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, newSupervisor(shim.Config{HostProcess: true}).wipe(nil), runtime.ErrWipeUnverified)
}
