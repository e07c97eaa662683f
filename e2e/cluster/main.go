// Command cluster runs a Kubernetes node of one machine, for tests.
//
// It creates the credentials and the configuration, starts etcd, the API server,
// the controllers, the scheduler, the kubelet and a separate containerd, and
// waits until a pod can be created. All of its files are below one directory.
// The rest (the bridge, the control groups, one packet filter rule) has the
// cluster's name, and `cluster down` removes it, also after a crash.
//
// The script .ci/cluster builds the programs and installs Debian's. README.md
// describes the limits of this cluster.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usage = `usage: cluster VERB

  up             start the cluster; does nothing if it is up
  down           stop it and remove all of it except its logs
  status         report whether it works; fails if it does not
  load FILE...   load the images of tars, as docker save writes them
  help           print this
  stop-PART      kill a part, to simulate an outage
  start-PART     start it again and wait until it works

parts: %s

environment:
  HOSTLER_CLUSTER_DIR    directory of the cluster; /tmp/hostler-cluster
  HOSTLER_CLUSTER_INDEX  0 to 255, for several clusters at a time; 0
  HOSTLER_CLUSTER_NODE   the node program, named node or node-*; the one next to this
  HOSTLER_CLUSTER_PAUSE  the pause program; the one next to this

exit codes: 0 success, 1 failure, 2 usage error
`

// errInvalidUsage is the error of an invalid command line.
var errInvalidUsage = errors.New("usage error")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	if errors.Is(err, errInvalidUsage) {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintf(os.Stderr, usage, strings.Join(partNames(), ", "))
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// verbs are the commands, except for those of parts.
var verbs = map[string]func(ctx context.Context, c cluster, args []string) error{
	"up":   func(ctx context.Context, c cluster, _ []string) error { return c.up(ctx) },
	"down": func(ctx context.Context, c cluster, _ []string) error { return c.down(ctx) },
	"load": func(ctx context.Context, c cluster, args []string) error { return c.load(ctx, args) },
}

// command runs the command in args and prints to out.
func command(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: no verb", errInvalidUsage)
	}
	verb, args := args[0], args[1:]
	if verb == "help" {
		_, err := fmt.Fprintf(out, usage, strings.Join(partNames(), ", "))
		return err
	}
	if (verb == "load") != (len(args) > 0) {
		return fmt.Errorf("%w: load takes files, and nothing else takes an argument", errInvalidUsage)
	}
	l, err := layoutOf(getenv)
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidUsage, err)
	}
	t, err := toolsOf(getenv)
	if err != nil {
		return err
	}
	c := cluster{layout: l, tools: t, out: out}
	if verb == "status" {
		return c.status(ctx)
	}
	if do, ok := verbs[verb]; ok {
		return c.withLock(func() error { return do(ctx, c, args) })
	}
	if name, ok := strings.CutPrefix(verb, "stop-"); ok {
		return c.withPart(name, func(p part) error { return c.stop(ctx, p) })
	}
	if name, ok := strings.CutPrefix(verb, "start-"); ok {
		return c.withPart(name, func(p part) error { return c.start(ctx, p) })
	}
	return fmt.Errorf("%w: no verb %q", errInvalidUsage, verb)
}

// toolsOf returns the paths of our programs, which are built into one directory.
func toolsOf(getenv func(string) string) (tools, error) {
	self, err := os.Executable()
	if err != nil {
		return tools{}, fmt.Errorf("find this program: %w", err)
	}
	dir := filepath.Dir(self)
	t := tools{
		node:  cmp.Or(getenv("HOSTLER_CLUSTER_NODE"), filepath.Join(dir, "node")),
		pause: cmp.Or(getenv("HOSTLER_CLUSTER_PAUSE"), filepath.Join(dir, "pause")),
	}
	// The parts run in another directory, so the path must be absolute.
	if t.node, err = filepath.Abs(t.node); err != nil {
		return tools{}, fmt.Errorf("find the node program: %w", err)
	}
	return t, nil
}
