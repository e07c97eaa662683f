package workqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// grouped is a queue of keys whose group is their first letter.
func grouped(o Options[string]) *Queue[string] {
	o.Group = func(key string) string { return key[:1] }
	return New(o)
}

// A group with a thousand slow keys does not delay another group.
func TestSlowGroupDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := grouped(Options[string]{PerGroup: 4, Reserved: 2})
		for n := range 1000 {
			q.Add(fmt.Sprint("slow", n))
		}
		running, most, others := 0, 0, 0
		var mu sync.Mutex
		stop := start(t, q, 8, func(ctx context.Context, task *Task[string]) error {
			mu.Lock()
			defer mu.Unlock()
			if task.Key[:1] != "s" {
				others++
				return nil
			}
			running++
			most = max(most, running)
			mu.Unlock()
			wait(ctx, 10*time.Minute)
			mu.Lock()
			running--
			return nil
		})
		for n := range 100 {
			q.Add(fmt.Sprint("quick", n))
			synctest.Wait()
			require.Equal(t, n+1, others)
			sleep(time.Second)
		}
		stop()
		require.Equal(t, 4, most)
	})
}

// Groups take turns for the slots, also where nothing but the total limits them.
func TestGroupsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := grouped(Options[string]{})
		for _, key := range []string{"a1", "a2", "a3", "b1", "b2", "c1"} {
			q.Add(key)
		}
		var order []string
		start(t, q, 1, func(_ context.Context, task *Task[string]) error {
			order = append(order, task.Key)
			return nil
		})
		synctest.Wait()
		require.Equal(t, []string{"a1", "b1", "c1", "a2", "b2", "a3"}, order)
	})
}

// A slot that becomes free is for the owner with the fewest executions, however
// many groups of another one wait for theirs.
func TestOwnersShareSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{Group: func(key string) string { return key }, Owner: func(key string) string { return key[:1] }})
		for i := range 9 {
			q.Add(fmt.Sprint("a", i))
		}
		var order []string
		var mu sync.Mutex
		unblock := make(chan struct{})
		start(t, q, 4, func(_ context.Context, task *Task[string]) error {
			mu.Lock()
			order = append(order, task.Key)
			mu.Unlock()
			<-unblock
			return nil
		})
		synctest.Wait()
		for _, key := range []string{"b1", "b2", "b3", "c1", "c2"} {
			q.Add(key)
		}
		for range 6 {
			unblock <- struct{}{}
			synctest.Wait()
		}
		owners := ""
		for _, key := range order {
			owners += key[:1]
		}
		require.Equal(t, "aaaabcaabc", owners)
		close(unblock)
		synctest.Wait()
		require.Len(t, order, 14)
		requireEmpty(t, q)
		require.Empty(t, q.owners)
	})
}

// A group gets at most its limit of slots, and the reserved ones are for groups
// without an execution.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := grouped(Options[string]{PerGroup: 4, Reserved: 2})
		executing := map[string]bool{}
		unblock := make(chan struct{})
		var mu sync.Mutex
		start(t, q, 8, func(_ context.Context, task *Task[string]) error {
			mu.Lock()
			executing[task.Key] = true
			mu.Unlock()
			<-unblock
			return nil
		})
		add := func(key string, want bool, why string) {
			t.Helper()
			q.Add(key)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, want, executing[key], why)
		}
		for _, key := range []string{"w1", "w2", "w3", "w4"} {
			add(key, true, "")
		}
		add("w5", false, "the limit of the group")
		add("v1", true, "")
		add("v2", true, "")
		add("v3", false, "the rest is reserved")
		add("x1", true, "")
		add("y1", true, "")
		add("z1", false, "no slot is free")
		close(unblock)
		synctest.Wait()
		require.Len(t, executing, 11)
		requireEmpty(t, q)
	})
}

// A parked execution keeps its key and frees its slot. It has limits of its own.
func TestPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := grouped(Options[string]{PerGroup: 1, Parked: 3, ParkedPerGroup: 2})
		executed := map[string]int{}
		unblock := make(chan struct{})
		var mu sync.Mutex
		start(t, q, 1, func(_ context.Context, task *Task[string]) error {
			mu.Lock()
			executed[task.Key]++
			mu.Unlock()
			task.Park()
			<-unblock
			return nil
		})
		for _, key := range []string{"a1", "a2", "a3", "b1", "b2", "a1"} {
			q.Add(key)
			synctest.Wait()
		}
		require.Equal(t, map[string]int{"a1": 1, "a2": 1, "b1": 1}, executed)
		close(unblock)
		synctest.Wait()
		require.Equal(t, map[string]int{"a1": 2, "a2": 1, "a3": 1, "b1": 1, "b2": 1}, executed)
		requireEmpty(t, q)
	})
}

// A detached execution frees its key and keeps its slot, and its error is not
// retried.
func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{PerGroup: 2, Backoff: second})
		running, total := 0, 0
		var mu sync.Mutex
		start(t, q, 5, func(ctx context.Context, task *Task[string]) error {
			mu.Lock()
			defer mu.Unlock()
			if total == 5 {
				return nil
			}
			total++
			running++
			assert.LessOrEqual(t, running, 2)
			task.Detach()
			q.Add(task.Key)
			mu.Unlock()
			wait(ctx, time.Minute)
			mu.Lock()
			running--
			return errors.New("broken")
		})
		q.Add("a")
		sleep(30 * time.Second)
		mu.Lock()
		require.Equal(t, 2, running)
		mu.Unlock()
		sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 5, total)
		requireEmpty(t, q)
	})
}
