package fake

import (
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// container is one container: its files, its processes and their output.
type container struct {
	spec    runtime.Spec
	user    User   // the user it runs as, unless a command names another
	userErr error  // the error of resolving it
	host    string // its address
	onExit  func(runtime.Exit)
	// protocol is the record's, guarded by the runtime's mu; program is the
	// version of the program that runs in it.
	protocol string
	program  int

	// mu guards what follows, files included. It is not held while a program or a
	// trap runs.
	mu          sync.Mutex
	state       runtime.State
	code        int
	oom         bool
	condition   runtime.Condition
	exits       int // so far, which end what reads or writes a tree
	files       *tree
	hasBaseline bool
	baseline    int // files.changes when the baseline was recorded
	fence       int64
	main        *Proc
	mainFence   int64             // the fence that main was started with
	environment map[string]string // of main and of commands of the tenant, over the spec's
	procs       map[int]*Proc     // by pid
	nextPID     int
	active      map[*run]bool
	runs        map[string]*run // by RunID
	runIDs      []string        // of runs, oldest first
	log         log
	server      *requestServer            // of its requests; nil if there is none
	commands    map[string]*requestServer // of those of commands, by RunID
	lost        chan struct{}             // closed when the container exits; nil before the first server
	stopAt      time.Time                 // when a Destroy asked the main process to exit
	changed     *sync.Cond                // of commands and connections of tenants; with mu
	tenant      []*tenantCommand          // in the order of their start
	ports       containerPorts
}

func newContainer(spec runtime.Spec, host string, speaks runtime.Protocols, onExit func(runtime.Exit)) *container {
	user, err := accounts{imagePasswd, imageGroup}.lookup(spec.User)
	c := &container{
		spec: spec, user: user, userErr: err, host: host, protocol: speaks.Format(), program: speaks.Current, onExit: onExit,
		state: runtime.Created, files: newTree(spec, user),
		procs: make(map[int]*Proc), nextPID: firstPID,
		active: make(map[*run]bool), runs: make(map[string]*run), commands: make(map[string]*requestServer),
	}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Node is the node that the containers run on.
const Node = "fake-node"

// status returns the container's status.
func (c *container) status() runtime.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := runtime.Status{
		ID: c.spec.ID, Workload: c.spec.Workload, Revision: c.spec.Revision,
		State: c.state, Condition: c.condition, ExitCode: c.code, OOMKilled: c.oom,
		Endpoint: runtime.Endpoint{Ports: c.spec.Ports},
	}
	if c.state != runtime.Created {
		s.Node = Node
	}
	if c.state == runtime.Running {
		s.Endpoint.Host = c.host
	}
	return s
}

// start runs the main process.
func (c *container) start(rt *Runtime) error {
	p, err := c.newMain(rt)
	if err != nil {
		return err
	}
	p.execute()
	return nil
}

func (c *container) newMain(rt *Runtime) (*Proc, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &Proc{Args: c.spec.Command, Stdin: eof{}, c: c, parent: initPID}
	if len(p.Args) == 0 {
		p.Args = []string{TestprogPath, "idle"} // the image's own
	}
	p.Stdout, p.Stderr = &pipe{p, &c.log}, &pipe{p, &c.log}
	if err := c.prepare(rt, p, "", c.environment); err != nil {
		c.state, c.code = runtime.Exited, 127
		return nil, err
	}
	c.state, c.code, c.oom = runtime.Running, 0, false
	c.addProc(p)
	c.main, c.mainFence = p, c.fence
	return p, nil
}

// handleExit handles the exit of the main process: the container exits, and all
// other processes are killed. The caller holds the lock.
func (c *container) handleExit(code int) {
	c.state, c.code = runtime.Exited, code
	c.exits++
	c.loseServers()
	c.killAll()
	c.clearRuns()
	c.files.resetTmpfs()
	c.onExit(runtime.Exit{ID: c.spec.ID, ExitCode: code, OOMKilled: c.oom, Time: time.Now()})
}

// killAll ends every process and with them the running commands. The end of the
// main process does not count as an exit. The caller holds the lock.
func (c *container) killAll() {
	main := c.main
	c.main, c.environment = nil, nil
	c.ports.closeAll(runtime.ErrContainerExited)
	for r := range c.active {
		r.containerExited = r.liveProcs > 0
	}
	if main != nil {
		c.terminate(main, sigKill)
	}
	for _, p := range c.procs {
		c.terminate(p, sigKill)
	}
}

// remove removes the container permanently.
func (c *container) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.main != nil {
		c.terminate(c.main, sigKill)
		return
	}
	if c.state == runtime.Exited {
		return // its exit was reported
	}
	c.state = runtime.Exited
	c.loseServers()
	c.killAll()
	c.onExit(runtime.Exit{ID: c.spec.ID, Time: time.Now()})
}

// address returns the n-th address of the block reserved for network benchmarks.
func address(n uint32) string {
	return fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255)
}
