// Package process runs containers as ordinary processes of this machine, each
// in a private directory: for trying Hostler, and for tests, where no container
// engine is available.
//
// There is NO ISOLATION. A command sees the machine's files, processes and
// network with the permissions of its user, and no limit of CPU, memory or
// number of processes is enforced; images are ignored. Never give such a
// container to a tenant that you do not trust.
//
// In all other respects it meets the contract of package runtime, through the
// same program as in a real container. A container is a directory:
//
//	containers/ID/spec.json   its spec and its protocol version
//	containers/ID/root/       its files: a volume is root + its target, a
//	                          workdir "/x" is root/x, HOSTLER_ROOT is its path
//	containers/ID/run/sock    the socket of its init
//	containers/ID/run/fence   the greatest fence it has received
//	containers/ID/bin         what its processes send requests with: the program
//	                          hostler and its socket
//	containers/ID/log         the output of the main process
//	containers/ID/exit        how the main process exited
//	containers/ID.gone        it is being destroyed
//	run/ID                    which process is its init
//
// Init is a daemon: containers keep running when the server exits, and a server
// that opens the same directory finds them.
package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

var _ runtime.Runtime = (*Runtime)(nil)

// Runtime keeps containers in one directory.
type Runtime struct {
	dir    string
	shim   string // the path of hostler-shim
	secret []byte

	backend.Containers
	sessions *shim.Sessions
}

// Options name the directory of the containers and the shim.
type Options struct {
	// Dir is the directory of the containers. New creates it if necessary.
	Dir string
	// ShimPath is the program hostler-shim.
	ShimPath string
	// Secret is what the session tokens are derived from. It must be the same
	// whenever the directory is opened.
	Secret []byte
	// UnresponsiveTimeout and MayChange are those of shim.Options.
	UnresponsiveTimeout time.Duration
	MayChange           func() error
}

// New opens the directory of the options.
func New(o Options) (*Runtime, error) {
	dir, err1 := filepath.Abs(o.Dir)
	shimPath, err2 := filepath.Abs(o.ShimPath)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("open the process runtime: %w", err)
	}
	if _, err := os.Stat(shimPath); err != nil {
		return nil, fmt.Errorf("open the process runtime: %w", err)
	}
	r := &Runtime{dir: dir, shim: shimPath, secret: o.Secret}
	r.sessions = shim.NewSessions(shim.Options{
		Secret: o.Secret, Dial: r.dial, CheckRunning: r.checkRunning,
		UnresponsiveTimeout: o.UnresponsiveTimeout, MayChange: o.MayChange,
	})
	r.Containers = backend.New(r.sessions, backend.Options{Resume: r.resume, Status: r.Status, FileProgram: r.fileProgram})
	for _, sub := range []string{r.containersDir(), r.recordsDir()} {
		// Other users need to traverse it to a root that belongs to them.
		if err := os.MkdirAll(sub, 0o711); err != nil {
			return nil, fmt.Errorf("open the process runtime: %w", err)
		}
	}
	return r, nil
}

func (r *Runtime) containersDir() string { return filepath.Join(r.dir, "containers") }
func (r *Runtime) recordsDir() string    { return filepath.Join(r.dir, "run") }

// idPattern matches an id that is valid as the name of a directory. It has no
// dot, which marks a directory that is being destroyed.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// containerPaths has the paths of a container's parts.
type containerPaths struct {
	id     string
	dir    string
	record string
}

func (r *Runtime) paths(id string) containerPaths {
	return containerPaths{id: id, dir: filepath.Join(r.containersDir(), id), record: filepath.Join(r.recordsDir(), id)}
}

const destroyingSuffix = ".gone"

func (p containerPaths) destroyingDir() string { return p.dir + destroyingSuffix }
func (p containerPaths) rootDir() string       { return filepath.Join(p.dir, "root") }
func (p containerPaths) specFile() string      { return filepath.Join(p.dir, "spec.json") }
func (p containerPaths) logFile() string       { return filepath.Join(p.dir, "log") }
func (p containerPaths) exitFile() string      { return filepath.Join(p.dir, "exit") }
func (p containerPaths) socketFile() string    { return filepath.Join(p.dir, "run", "sock") }
func (p containerPaths) fenceFile() string     { return filepath.Join(p.dir, "run", shim.FenceFileName) }
func (p containerPaths) askDir() string        { return filepath.Join(p.dir, "bin") }
func (p containerPaths) logMarkFile() string   { return filepath.Join(p.dir, "log-mark") }

// hostPath returns the path on this machine of a path in the container.
func (p containerPaths) hostPath(path string) string {
	return filepath.Join(p.rootDir(), filepath.Clean("/"+path))
}

// lookup returns the paths of a container that exists.
func (r *Runtime) lookup(id string) (containerPaths, error) {
	p := r.paths(id)
	if !idPattern.MatchString(id) {
		return p, fmt.Errorf("%w: %q", runtime.ErrNotFound, id)
	}
	_, err := os.Stat(p.specFile())
	if errors.Is(err, os.ErrNotExist) {
		return p, fmt.Errorf("%w: %q", runtime.ErrNotFound, id)
	}
	if err != nil {
		return p, unavailableError("find container "+id, err)
	}
	return p, nil
}

// unavailableError converts an error of this machine, which may be temporary.
func unavailableError(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, runtime.ErrUnavailable, err)
}
