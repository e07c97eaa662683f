package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// printShimUser switches to the shim's user and prints the resulting state of
// this process.
func printShimUser() int {
	h := map[string]capInheritance{"none": inheritNoCaps, "all": inheritAllCaps}[os.Args[2]]
	if err := switchToShimUser(h); err != nil {
		logError("switch to the shim's user", err)
		return exitFailed
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return exitFailed
	}
	fmt.Print(string(status))
	var st unix.Stat_t
	_ = unix.Stat("/proc/self/oom_score_adj", &st) // its owner is 0 then
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Printf("Dumpable: %d\nOwner: %d\n", dumpable, st.Uid)
	uid, gid := defaultIDs()
	fmt.Printf("Empty: %d:%d\n", uid, gid)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return exitFailed
	}
	kinds := map[string]bool{}
	for _, task := range tasks {
		of, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err == nil {
			lines := parseStatus(string(of))
			kinds[lines["Uid"]+lines["Gid"]+lines["Groups"]+lines["CapInh"]+lines["CapPrm"]+lines["CapEff"]+lines["CapAmb"]] = true
		}
	}
	fmt.Printf("Kinds: %d\n", len(kinds))
	return 0
}

// If permitted, the program switches all of its threads to a user of its own
// and keeps its capabilities. Only its own programs inherit them.
func TestSwitchToShimUser(t *testing.T) {
	if usesCgo() {
		testenv.InSecondPass(t, "it builds this program without cgo")
	}
	program, err := withoutCgo()
	require.NoError(t, err)
	if !isPrivileged() {
		checkUnprivilegedUser(t, program, nil)
		return
	}
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	mine := parseStatus(string(text))
	own := strings.TrimSpace(strings.Repeat(strconv.Itoa(shim.UID)+" ", 4))
	for inheritance, inherited := range map[string]string{"none": strings.Repeat("0", 16), "all": mine["CapPrm"]} {
		is := runChild(t, nil, program, "own", inheritance)
		require.Equal(t, own, is["Uid"])
		require.Equal(t, own, is["Gid"])
		require.Empty(t, is["Groups"])
		require.Equal(t, mine["CapPrm"], is["CapPrm"])
		require.Equal(t, mine["CapPrm"], is["CapEff"])
		require.Equal(t, inherited, is["CapInh"], inheritance)
		require.Equal(t, inherited, is["CapAmb"], inheritance)
		require.Equal(t, "1", is["Kinds"], "every thread is the same")
		require.Equal(t, strconv.Itoa(shim.UID), is["Owner"], "its files in /proc belong to it")
		require.Equal(t, "1", is["Dumpable"])
		require.Equal(t, "0:0", is["Empty"], "an empty user means the initial user")
	}
	checkUnprivilegedUser(t, program, &syscall.Credential{Uid: 4321, Gid: 4322, Groups: []uint32{4323}})
	half := uintptr(unix.CAP_SETUID)
	is := runChild(t, &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: 4321, Gid: 4322}, AmbientCaps: []uintptr{half},
	}, program, "own", "none")
	require.Equal(t, "4321 4321 4321 4321", is["Uid"], "it may switch its user, but not its group")
}

// checkUnprivilegedUser checks that the program keeps its user and disables
// dumping if it may not switch to another user.
func checkUnprivilegedUser(t *testing.T, program string, as *syscall.Credential) {
	t.Helper()
	is := runChild(t, &syscall.SysProcAttr{Credential: as}, program, "own", "all")
	require.Equal(t, "0", is["Dumpable"])
	if as == nil {
		return
	}
	require.Equal(t, "4321 4321 4321 4321", is["Uid"])
	require.Equal(t, "4322 4322 4322 4322", is["Gid"])
	require.Equal(t, "4321:4322", is["Empty"])
}
