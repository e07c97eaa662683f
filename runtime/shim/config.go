package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Where things are inside a container. A backend mounts Mount read-only, with
// the program and an empty folder for RunDir in it, and a small tmpfs at RunDir
// that belongs to UID. So Mount cannot be renamed, for the kernel renames no
// mount point, and nobody can make or change anything in it. Neither is ever
// wiped.
const (
	Mount      = "/.hostler"
	BinDir     = Mount + "/bin"
	BinaryName = "shim"
	BinaryPath = BinDir + "/" + BinaryName
	RunDir     = Mount + "/run"
	SocketPath = RunDir + "/sock"
	// StateDir is for what outlives a restart of the container by its engine,
	// where RunDir does not.
	StateDir = Mount + "/state"
	// FenceFileName is the name of Config.FenceFile, in RunDir or in StateDir.
	FenceFileName = "fence"
)

// AbstractSocket is the program's socket where it has no user of its own, and so
// no directory that is closed to the tenant: an abstract one can neither be
// removed nor replaced while the program listens.
const AbstractSocket = "@hostler-shim"

// FileMode is the program's: it can be run and not be read. The kernel lets
// nobody trace a process, or look into its memory, whose program he may not
// read, from the first moment on.
const FileMode = 0o111

// UID is the user, and the group, that is the program's own: whatever belongs to
// it is closed to every process of a tenant, root's included, who has no
// capability. No process of a tenant can get it.
const UID = runtime.ReservedUser

// UserGroup is UID as engines write a user and a group.
const UserGroup = "64997:64997"

// WritableMirrorDir is where volumes that the workload may only read are mounted a second
// time, for the program to fill and to empty. It belongs to UID and is closed to
// all others. It is not below Mount, which is never wiped.
const WritableMirrorDir = "/.hostler-volumes"

// ConfigEnv is the environment variable that carries the Config. The program
// removes it from what its children see.
const ConfigEnv = "HOSTLER_SHIM"

// MainPIDEnv is the environment variable that tells a command the number of
// the main process, as it is in the container.
const MainPIDEnv = "HOSTLER_MAIN_PID"

// HaltSignal tells init to stop the main process and to stay: a backend whose
// engine must not end several containers at once removes them one by one
// afterwards. It is a signal that programs use for nothing else, so that SIGTERM
// keeps its meaning: stop, and end the container. It is SIGPWR and no real-time
// signal, which gVisor's runsc does not send.
const HaltSignal = 30

// Config is all that `hostler-shim init` needs to know. It holds the
// container's key, so nothing of a workload may read it.
type Config struct {
	// Args is the argv of the main process, whole: entrypoint and command.
	Args []string `json:"args"`
	// Environment is set over the one that init itself was started with. Both
	// together are what the main process and every command get.
	Environment map[string]string `json:"environment,omitempty"`
	// User is the main process's: uid, uid:gid, name or name:group, looked up in
	// the container. Empty is whoever init runs as.
	User string `json:"user,omitempty"`
	// Workdir is an absolute path as init sees it. Empty is Root; "." is where
	// init was started, for an engine that knows the image's folder better.
	Workdir string `json:"workdir,omitempty"`
	// Root is "/" (or empty) in a container, and the private folder of a
	// container that is only a folder.
	Root string `json:"root,omitempty"`
	// Volumes are the targets of the volumes below Root. One that is empty and
	// root's own when init starts is given to User.
	Volumes []string `json:"volumes,omitempty"`
	// HostProcess says that init shares its machine with other people's processes:
	// it is not process 1, its container is its descendants and the folder
	// Root, a RecordBaseline walks that folder, and a Wipe empties Volumes below it.
	HostProcess bool `json:"shared,omitempty"`
	// Socket is where init listens; empty for SocketPath or AbstractSocket.
	Socket string `json:"socket,omitempty"`
	// Key is the container's, see Key: who holds it is obeyed.
	Key []byte `json:"key"`
	// ExitFile is written with the main process's exit code when it ends, for
	// want of an engine that remembers it. Empty for none.
	ExitFile string `json:"exit_file,omitempty"`
	// StartedMarker is a file that init makes when it starts the main process for the
	// first time, for an engine that starts an ended container again unasked.
	// An init that finds it leaves the main process to a Restart. Empty for an
	// engine that does not.
	StartedMarker string `json:"began,omitempty"`
	// StopSignal asks the main process to end. Zero is SIGTERM.
	StopSignal int `json:"stop_signal,omitempty"`
	// StopGrace is how long the main process may take to end when init is told
	// to stop. After it, init ends the container. Zero leaves that to the engine.
	StopGrace time.Duration `json:"stop_grace,omitempty"`
	// StopSignals are signals that tell init to stop, besides SIGTERM and HaltSignal:
	// those that the engine may send for an image. All others are passed on to
	// the main process as they are.
	StopSignals []int `json:"stop_on,omitempty"`
	// FenceFile is where init keeps the greatest fence that it was given. The
	// folder has to outlive a restart of the container by its engine.
	FenceFile string `json:"fence_file,omitempty"`
}

// Env is the Config as an environment entry, "HOSTLER_SHIM={...}".
func (c Config) Env() (string, error) {
	if len(c.Args) == 0 {
		return "", errors.New("the shim needs the argv of a main process")
	}
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode the shim's settings: %w", err)
	}
	return ConfigEnv + "=" + string(b), nil
}

// ParseConfig reads what Env wrote and fills in what was left out.
func ParseConfig(value string) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(strings.TrimPrefix(value, ConfigEnv+"=")), &c); err != nil {
		return c, fmt.Errorf("read the shim's settings: %w", err)
	}
	if len(c.Args) == 0 || len(c.Key) == 0 {
		return c, errors.New("read the shim's settings: args or key is missing")
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
