// Package process runs containers as ordinary processes of this machine, each
// in a private folder: for trying Hostler, and for tests, where there is no
// container engine.
//
// There is NO ISOLATION. A command sees the machine's files, processes and
// network with the rights of its user, and no limit of CPU, memory or number
// of processes is enforced; images are ignored. Never give such a container to
// somebody you do not trust.
//
// For the rest it keeps the contract of package runtime, through the same
// program as in a real container. A container is a folder:
//
//	containers/ID/spec.json   what it is made of, and its protocol version
//	containers/ID/root/       its files: a volume is root + its target, a
//	                          workdir "/x" is root/x, HOSTLER_ROOT tells where
//	containers/ID/run/sock    the socket of its init
//	containers/ID/run/fence   the greatest fence it was given
//	containers/ID/log         what the main process has printed
//	containers/ID/exit        how the main process ended
//	containers/ID.gone        it is being destroyed
//	run/ID                    which process is its init
//
// Init is a daemon: containers live on when the server ends, and a server that
// opens the same folder finds them.
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
)

var _ runtime.Runtime = (*Runtime)(nil)

// Runtime keeps containers in one folder.
type Runtime struct {
	dir    string
	shim   string // the path of hostler-shim
	secret []byte

	sessions *shim.Sessions
}

// Options say where the containers are and with which shim they run.
type Options struct {
	// Dir is the folder of the containers, made if need be.
	Dir string
	// ShimPath is the program hostler-shim.
	ShimPath string
	// Secret is what the tokens of the sessions are derived from. It has to be
	// the same whenever the folder is opened.
	Secret []byte
	// UnresponsiveTimeout and MayChange are those of shim.Options.
	UnresponsiveTimeout time.Duration
	MayChange           func() error
}

// New opens the folder of the options.
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
	for _, sub := range []string{r.containersDir(), r.recordsDir()} {
		// Other users have to pass through to a root that is theirs.
		if err := os.MkdirAll(sub, 0o711); err != nil {
			return nil, fmt.Errorf("open the process runtime: %w", err)
		}
	}
	return r, nil
}

func (r *Runtime) containersDir() string { return filepath.Join(r.dir, "containers") }
func (r *Runtime) recordsDir() string    { return filepath.Join(r.dir, "run") }

// idPattern is what may be a folder's name, and has no dot, which stands for
// something else.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// containerPaths is where a container's parts are.
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
func (p containerPaths) logMarkFile() string   { return filepath.Join(p.dir, "log-mark") }

// hostPath is where a path of the container is on this machine.
func (p containerPaths) hostPath(path string) string {
	return filepath.Join(p.rootDir(), filepath.Clean("/"+path))
}

// lookup is the place of a container that exists.
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

// unavailableError turns an error of this machine into the contract's: it may pass.
func unavailableError(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, runtime.ErrUnavailable, err)
}
