package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Paths inside a container. A backend mounts Mount read-only. Mount holds the
// program and an empty directory for RunDir, where the backend mounts a small
// tmpfs that belongs to UID. Mount cannot be renamed, because the kernel does
// not rename mount points, and no process can create or change anything in it.
// Neither is ever wiped.
const (
	Mount      = "/.hostler"
	BinDir     = Mount + "/bin"
	BinaryName = "shim"
	BinaryPath = BinDir + "/" + BinaryName
	RunDir     = Mount + "/run"
	SocketPath = RunDir + "/sock"
	// StateDir holds what must survive a restart of the container by its
	// engine. RunDir does not survive one.
	StateDir = Mount + "/state"
	// FenceFileName is the name of Config.FenceFile, in RunDir or in StateDir.
	FenceFileName = "fence"
)

// AbstractSocket is the program's socket where the program has no user of its
// own, and so no directory that is closed to the tenant. An abstract socket can
// be neither removed nor replaced while the program listens.
const AbstractSocket = "@hostler-shim"

// FileMode is the mode of the program's file: executable, not readable. The
// kernel lets no process trace another one, or read its memory, if it may not
// read the program's file. That holds from the process's first instruction.
const FileMode = 0o111

// UID is the program's own user and group. Whatever belongs to it is closed to
// every process of a tenant that has no capability, including root's processes.
// No process of a tenant can obtain this UID.
const UID = runtime.ReservedUser

// UserGroup is UID in the form that engines use for a user and a group.
const UserGroup = "64997:64997"

// WritableMirrorDir is where volumes that are read-only for the workload are
// mounted a second time, so that the program can fill and empty them. It
// belongs to UID and is closed to everyone else. It is not below Mount, because
// Mount is never wiped.
const WritableMirrorDir = "/.hostler-volumes"

// ConfigEnv is the environment variable that holds the Config. The program
// removes it from the environment of its children.
const ConfigEnv = "HOSTLER_SHIM"

// MainPIDEnv is the environment variable that holds the PID of the main
// process, as seen in the container.
const MainPIDEnv = "HOSTLER_MAIN_PID"

// HaltSignal makes init stop the main process and keep running. It is for a
// backend whose engine must not end several containers concurrently: the
// backend removes them one by one afterwards. No program uses this signal for
// anything else, so SIGTERM keeps its meaning: stop, and end the container. It
// is SIGPWR and not a real-time signal, because gVisor's runsc does not send
// those.
const HaltSignal = 30

// Config is the complete input of `hostler-shim init`. It holds the container's
// key, so no process of a workload may read it.
type Config struct {
	// Args is the complete argv of the main process: entrypoint and command.
	Args []string `json:"args"`
	// Environment is added to init's own environment and takes precedence. The
	// main process and every command get both.
	Environment map[string]string `json:"environment,omitempty"`
	// User is the user of the main process: uid, uid:gid, name or name:group,
	// looked up in the container. Empty means the user that init runs as.
	User string `json:"user,omitempty"`
	// Workdir is an absolute path as init sees it. Empty means Root. "." means
	// the directory that init was started in, for an engine that resolves the
	// image's directory itself.
	Workdir string `json:"workdir,omitempty"`
	// Root is "/" (or empty) in a container, and the private directory of a
	// container that is only a directory.
	Root string `json:"root,omitempty"`
	// Volumes are the targets of the volumes below Root. A volume that is empty
	// and owned by root when init starts is given to User.
	Volumes []string `json:"volumes,omitempty"`
	// HostProcess reports whether init shares the machine with unrelated
	// processes. Then init is not process 1. Its container is its descendants
	// and the directory Root. RecordBaseline scans that directory, and Wipe
	// empties the Volumes below it.
	HostProcess bool `json:"shared,omitempty"`
	// Socket is where init listens. Empty means SocketPath or AbstractSocket.
	Socket string `json:"socket,omitempty"`
	// AskSocket is where init listens for requests of the container's processes.
	// Empty means the abstract socket AskSocket.
	AskSocket string `json:"ask_socket,omitempty"`
	// Key is the container's key, see DeriveKey. Init obeys a peer that has it.
	Key []byte `json:"key"`
	// ExitFile receives init's exit code when init exits. An init that waits for a
	// start and exits without it exits with that code. Empty means none, for an
	// engine that restarts an exited container by itself.
	ExitFile string `json:"exit_file,omitempty"`
	// StartedMarker is a file that init creates when it starts the main process
	// for the first time. It is for an engine that restarts an exited container
	// by itself: an init that finds the file waits for OpStartMain. Empty for
	// other engines: there, an init that finds a fence in FenceFile waits for
	// OpStartMain, and exits if it does not come.
	StartedMarker string `json:"began,omitempty"`
	// StopSignal asks the main process to exit. Zero means SIGTERM.
	StopSignal int `json:"stop_signal,omitempty"`
	// StopGrace is how long the main process may take to exit when init is told
	// to stop. Then init ends the container. Zero leaves that to the engine.
	StopGrace time.Duration `json:"stop_grace,omitempty"`
	// StaysForState has init stay for StopGrace when it is told to stop by a signal
	// while a tenant has the container, so that the server can save the files. It
	// is for an engine that removes the files with the container.
	StaysForState bool `json:"stays_for_state,omitempty"`
	// StopSignals are the signals that make init stop, in addition to SIGTERM
	// and HaltSignal: those that the engine may send for an image. Init
	// forwards all other signals to the main process.
	StopSignals []int `json:"stop_on,omitempty"`
	// FenceFile is where init stores the greatest fence that it received. Its
	// directory must survive a restart of the container by its engine.
	FenceFile string `json:"fence_file,omitempty"`
}

// Env returns the Config as an environment entry, "HOSTLER_SHIM={...}".
func (c Config) Env() (string, error) {
	if len(c.Args) == 0 {
		return "", errors.New("the shim needs the argv of a main process")
	}
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode the shim config: %w", err)
	}
	return ConfigEnv + "=" + string(b), nil
}

// ParseConfig parses the output of Env and fills in defaults.
func ParseConfig(value string) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(strings.TrimPrefix(value, ConfigEnv+"=")), &c); err != nil {
		return c, fmt.Errorf("parse the shim config: %w", err)
	}
	if len(c.Args) == 0 || len(c.Key) == 0 {
		return c, errors.New("parse the shim config: args or key is missing")
	}
	if c.Root == "" {
		c.Root = "/"
	}
	if c.Workdir == "" {
		c.Workdir = c.Root
	}
	if c.StopSignal <= 0 {
		c.StopSignal = runtime.DefaultStopSignal
	}
	return c, nil
}
