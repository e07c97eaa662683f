package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hostler/hostler/internal/flow"
)

// disruption is a failure that the soak causes, with its relative frequency.
type disruption struct {
	name   string
	weight int
	// run causes it, and reports whether there was a target.
	run func(s *soak, ctx context.Context, random *rand.Rand) (bool, error)
}

var disruptions = []disruption{
	{"sessions cut", 60, (*soak).cutSession},
	{"claimed containers killed", 20, (*soak).killClaimed},
	{"idle or unfinished containers killed", 2, (*soak).killAny},
	{"engine lost", 6, (*soak).cutEngine},
	{"workloads changed", 3, (*soak).changeWorkload},
	{"servers killed", 4, (*soak).killServer},
}

// runDisruptions causes disruptions until ctx ends.
func (s *soak) runDisruptions(ctx context.Context, random *rand.Rand) error {
	total := 0
	for _, t := range disruptions {
		total += t.weight
	}
	for {
		if flow.Sleep(ctx, time.Duration(100+random.IntN(900))*time.Millisecond) != nil {
			return nil
		}
		n := random.IntN(total)
		i := slices.IndexFunc(disruptions, func(t disruption) bool { n -= t.weight; return n < 0 })
		done, err := disruptions[i].run(s, context.WithoutCancel(ctx), random)
		if err != nil {
			return fmt.Errorf("disruption, %s: %w", disruptions[i].name, err)
		}
		if done {
			s.counters.add("disruptions: %s", disruptions[i].name)
		}
	}
}

// cutSession kills the bridge between Hostler and the shim of one of our
// containers. It finds none if the engine's processes are not visible.
func (s *soak) cutSession(ctx context.Context, random *rand.Rand) (bool, error) {
	ours, err := s.engine.containers(ctx, s.instance)
	if err != nil {
		return false, err
	}
	var bridges []int
	for _, dir := range processes("/shim\x00connect\x00") {
		group, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !slices.ContainsFunc(ours, func(c found) bool { return strings.Contains(string(group), c.ID) }) {
			continue // it has exited, or belongs to another instance
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return false, err
		}
		bridges = append(bridges, pid)
	}
	if len(bridges) == 0 {
		return false, nil
	}
	// A bridge that has exited since is cut already.
	return syscall.Kill(bridges[random.IntN(len(bridges))], syscall.SIGKILL) == nil, nil
}

// killClaimed kills a claimed container.
func (s *soak) killClaimed(ctx context.Context, random *rand.Rand) (bool, error) {
	s.mu.Lock()
	held := slices.Sorted(maps.Keys(s.holders))
	s.mu.Unlock()
	if len(held) == 0 {
		return false, nil
	}
	// It may have been released and destroyed since.
	return s.engine.kill(ctx, "hostler-"+held[random.IntN(len(held))]) == nil, nil
}

// killAny kills any container. It is rare, because a pool whose new containers
// exit backs off.
func (s *soak) killAny(ctx context.Context, random *rand.Rand) (bool, error) {
	ours, err := s.engine.containers(ctx, s.instance)
	if err != nil || len(ours) == 0 {
		return false, err
	}
	return s.engine.kill(ctx, ours[random.IntN(len(ours))].ID) == nil, nil
}

// cutEngine cuts the connection to the engine for up to 2 s.
func (s *soak) cutEngine(ctx context.Context, random *rand.Rand) (bool, error) {
	s.proxy.cut()
	defer s.proxy.restore()
	return true, flow.Sleep(ctx, time.Duration(random.IntN(2000))*time.Millisecond)
}

// changeWorkload applies a new revision, so that all containers are replaced.
func (s *soak) changeWorkload(_ context.Context, random *rand.Rand) (bool, error) {
	w := s.workloads[random.IntN(len(s.workloads))]
	w.generation++
	return true, s.apply(w)
}

// killServer kills the server at a random time, and starts it again.
func (s *soak) killServer(context.Context, *rand.Rand) (bool, error) {
	s.server.kill()
	return true, s.server.start()
}
