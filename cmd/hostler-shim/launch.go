package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// defaultPath is the search path for programs when PATH is not set.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launch is a program to start as another user.
type launch struct {
	args    []string
	env     []string
	as      identity
	dir     string
	files   [3]int   // descriptors for stdin, stdout and stderr
	script  *os.File // what the program reads as shim.ScriptPath; nil for none
	session bool     // a new session, not just a new process group
	// terminal makes stdin the terminal of the new session.
	terminal bool
	limits   runtime.ProcessLimits

	startTimeout time.Duration // of a start helper; 0 for startTimeout
}

// start starts the program and returns its PID. The error is always a
// *runtime.StartError.
//
// The caller must be a process that has disabled dumping: during the start, one
// of its threads runs as the program's user and shares its memory with the
// program. Processes of that user can limit or signal the caller during that
// time, so the caller must not work for other users later.
func (l launch) start() (int, error) {
	l.chownPipes()
	var pid int
	var err error
	onDisposableThread(func() {
		if len(rlimits(l.limits)) > 0 { // a process can only limit itself
			if err = passOnCapabilities(); err == nil {
				pid, err = l.startByHelper()
			}
			return
		}
		if err = setThreadIdentity(l.as); err == nil {
			pid, err = l.fork()
		}
	})
	return pid, err
}

// chownPipes gives the pipes and the terminal among the program's files to its user.
// They belong to their creator, and a program must be able to open /dev/stdout again.
// Other files keep their owner: everyone can use /dev/null.
func (l launch) chownPipes() {
	for _, fd := range l.files {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		switch isPipe := st.Mode&unix.S_IFMT == unix.S_IFIFO; {
		case l.terminal && isTerminal(fd):
			_ = unix.Fchown(fd, l.as.uid, -1) // it keeps the group of terminals
		case isPipe:
			_ = unix.Fchown(fd, l.as.uid, l.as.gid) // a pipe of another owner remains unchanged
		}
	}
}

// onDisposableThread runs f on an operating system thread that ends with it:
// what f does to the thread's credentials affects no other thread. It does not
// use the process's first thread, because that one represents the whole process
// for the kernel and never really ends.
func onDisposableThread(f func()) {
	done := make(chan struct{})
	go func() { // ends with f, or with the nested call
		goruntime.LockOSThread()
		defer close(done)
		if unix.Gettid() == unix.Getpid() {
			onDisposableThread(f)
			goruntime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// setThreadIdentity changes only the calling thread. It uses raw system calls,
// because those of package syscall change all threads.
func setThreadIdentity(id identity) error {
	if isReserved(id) {
		return errReservedUser
	}
	if isPrivileged() {
		// On Linux, dropping all other capabilities drops these as well.
		_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
		if err := setIDs(id); err != nil {
			return startErrorf("switch to uid %d: %s", id.uid, err)
		}
	} else if id.uid != os.Geteuid() || id.gid != os.Getegid() {
		return &runtime.StartError{Reason: runtime.StartUserNotFound,
			Detail: fmt.Sprintf("uid %d cannot run programs as %d:%d", os.Geteuid(), id.uid, id.gid)}
	}
	// Create a new keyring instead of init's: what one process stores there is
	// not visible to a later one. An engine that denies this call denies all
	// keyring calls.
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return startErrorf("drop capabilities: %s", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return startErrorf("set no_new_privs: %s", err)
	}
	if isPrivileged() {
		if err := installSignalFilter(); err != nil {
			return startErrorf("install the signal filter: %s", err)
		}
	}
	return nil
}

func setIDs(id identity) error {
	groups := make([]uint32, 0, len(id.groups)+1)
	for _, g := range id.groups {
		groups = append(groups, uint32(g))
	}
	list := append(groups, 0) // never empty, so that its address can be taken
	calls := []struct{ number, a, b, c uintptr }{
		{unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&list[0])), 0},
		{unix.SYS_SETRESGID, uintptr(id.gid), uintptr(id.gid), uintptr(id.gid)},
		{unix.SYS_SETRESUID, uintptr(id.uid), uintptr(id.uid), uintptr(id.uid)},
	}
	for _, c := range calls {
		if _, _, errno := unix.RawSyscall(c.number, c.a, c.b, c.c); errno != 0 {
			return errno
		}
	}
	goruntime.KeepAlive(list)
	return nil
}

// fork starts the program with the credentials of the calling thread.
func (l launch) fork() (int, error) {
	path, err := l.prepare()
	if err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec(path, l.args, &syscall.ProcAttr{
		Dir: l.dir, Env: l.env, Files: l.descriptors(),
		Sys: l.attributes(),
	})
	if err != nil {
		return 0, execError(l.args[0], path, err)
	}
	return pid, nil
}

// attributes returns the session and the process group of the program. A terminal is
// its stdin.
func (l launch) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !l.session, Setsid: l.session, Setctty: l.terminal}
}

// descriptors returns the descriptors of the program, from 0, and those that are
// given after stderr.
func (l launch) descriptors(more ...int) []uintptr {
	all := []uintptr{uintptr(l.files[0]), uintptr(l.files[1]), uintptr(l.files[2])}
	for _, fd := range more {
		all = append(all, uintptr(fd))
	}
	if l.script != nil {
		for len(all) < shim.ScriptDescriptor {
			all = append(all, ^uintptr(0)) // closed
		}
		all = append(all, l.script.Fd())
	}
	return all
}

// prepare checks that the calling thread's user has search permission on the
// working directory, and finds the program.
func (l launch) prepare() (path string, err error) {
	fd, err := unix.Open(l.dir+"/.", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", workdirError(l.dir, err)
	}
	unix.Close(fd)
	return l.findBinary()
}

func workdirError(dir string, err error) error {
	return &runtime.StartError{Reason: runtime.StartWorkdirNotFound, Detail: fmt.Sprintf("enter the working directory %q: %s", dir, err)}
}

// findBinary looks up the program as a shell does: unchanged if its name
// contains a slash, else in PATH.
func (l launch) findBinary() (string, error) {
	name := l.args[0]
	if strings.Contains(name, "/") {
		return name, checkExecutable(name, l.absolute(name))
	}
	notFound := error(&runtime.StartError{Reason: runtime.StartBinaryNotFound,
		Detail: fmt.Sprintf("%q is not in PATH", name)})
	for _, dir := range filepath.SplitList(lookupEnv(l.env, "PATH", defaultPath)) {
		path := l.absolute(filepath.Join(dir, name))
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			continue // also if this user may not search this directory of PATH
		}
		err := checkExecutable(name, path)
		if err == nil {
			return path, nil
		}
		notFound = err
	}
	return "", notFound
}

// absolute returns a path that does not depend on this process's own working
// directory.
func (l launch) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.dir, path)
}

// checkExecutable returns an error if the calling thread cannot execute the
// file at path.
func checkExecutable(name, path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return execError(name, path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &runtime.StartError{Reason: runtime.StartNotExecutable,
			Detail: fmt.Sprintf("%q is not a file", path)}
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return execError(name, path, err)
	}
	return nil
}

// startReasons map errors of the kernel to the reason that a command could not
// be started.
var startReasons = map[error]runtime.StartReason{
	unix.ENOENT:  runtime.StartBinaryNotFound, // the file or its interpreter
	unix.ENOTDIR: runtime.StartBinaryNotFound,
	unix.ELOOP:   runtime.StartBinaryNotFound,
	unix.EACCES:  runtime.StartNotExecutable,
	unix.EPERM:   runtime.StartNotExecutable,
	unix.ENOEXEC: runtime.StartNotExecutable,
	unix.EISDIR:  runtime.StartNotExecutable,
	unix.ELIBBAD: runtime.StartNotExecutable,
	unix.E2BIG:   runtime.StartBadInput,
	unix.EINVAL:  runtime.StartBadInput,

	unix.ENAMETOOLONG: runtime.StartBadInput,
}

func execError(name, path string, err error) error {
	for errno, reason := range startReasons {
		if errors.Is(err, errno) {
			return &runtime.StartError{Reason: reason, Detail: fmt.Sprintf("%q (%s): %s", name, path, err)}
		}
	}
	return startErrorf("%q: %s", name, err)
}

func startErrorf(format string, args ...any) error {
	return &runtime.StartError{Reason: runtime.StartFailed, Detail: fmt.Sprintf(format, args...)}
}

// lookupEnv returns the value of a name in an environment.
func lookupEnv(env []string, name, fallback string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return fallback
}

// mergeEnv returns an environment with overrides, and with HOME set.
func mergeEnv(env []string, overrides map[string]string, home string) []string {
	merged := make([]string, 0, len(env)+len(overrides)+1)
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if _, replaced := overrides[name]; !replaced && entry != "HOME=" {
			merged = append(merged, entry)
		}
	}
	for name, value := range overrides {
		merged = append(merged, name+"="+value)
	}
	if lookupEnv(merged, "HOME", "") == "" && home != "" {
		merged = append(merged, "HOME="+home)
	}
	return merged
}

// withoutOwnHome removes the HOME that an engine has set because init runs as
// root. Every other user has another one, which mergeEnv sets.
func withoutOwnHome(env []string) []string {
	as, err := containerAccounts.lookup("")
	if err != nil {
		return env
	}
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return entry == "HOME="+as.home
	})
}
