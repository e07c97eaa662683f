package workqueue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// model is a queue with a slot for every key, of which the time of each
// execution is known: it looks at all keys every second.
type model struct {
	keys [3]modelKey
	log  []execution
}

type modelKey struct {
	next     int // when it is executed next; none: never
	busy     int // until when it is executed, with the result below
	running  bool
	fails    bool
	forgot   bool
	failures int
}

type execution struct{ at, key int }

const none = 1 << 30

func newModel() *model {
	m := &model{}
	for k := range m.keys {
		m.keys[k].next = none
	}
	return m
}

// end ends the executions that end at now.
func (m *model) end(now int) {
	for i := range m.keys {
		k := &m.keys[i]
		if !k.running || k.busy > now {
			continue
		}
		k.running = false
		switch {
		case k.fails && !k.forgot:
			k.failures++
			k.next = now + min(1<<(k.failures-1), 60)
		default:
			k.failures = 0
		}
	}
}

// begin begins the executions that are due.
func (m *model) begin(now int, duration func(key int) (seconds int, fails bool)) {
	for i := range m.keys {
		k := &m.keys[i]
		if k.running || k.next > now {
			continue
		}
		seconds, fails := duration(i)
		k.next, k.running, k.busy, k.fails, k.forgot = none, true, now+seconds, fails, false
		m.log = append(m.log, execution{now, i})
	}
}

func (m *model) add(now, key, after int) {
	k := &m.keys[key]
	if !k.running && k.failures > 0 {
		return
	}
	k.next = min(k.next, now+after)
}

func (m *model) forget(key int) {
	k := &m.keys[key]
	k.next, k.failures, k.forgot = none, 0, k.running
}

// A queue executes the same keys at the same times as the model. A script is a
// sequence of calls, three bytes each: what and which key, how long after the
// last call, and after how long.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 1, 3, 2, 0, 1, 0, 5, 0, 9, 2, 0, 4, 1, 7})
	f.Add([]byte("add, add after, and forget, in any order; some fail, some take long"))
	f.Add([]byte{6, 0, 0, 6, 1, 0, 6, 1, 0, 9, 0, 0, 6, 0, 0, 6, 9, 0, 7, 0, 0, 8, 1, 9, 11, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		script = script[:min(len(script), 300)]
		synctest.Test(t, func(t *testing.T) { compare(t, script) })
	})
}

// compare performs the calls of a script on a queue and on the model, and
// compares when which keys are executed.
func compare(t *testing.T, script []byte) {
	// How long the nth execution of a key takes, and whether it fails, depend on
	// the script.
	duration := func(key, n int) (int, bool) {
		b := int(script[n*7%len(script)]) + key
		return 1 + b%5, b%3 == 0
	}
	if len(script) == 0 {
		return
	}
	m, q := newModel(), New(Options[int]{Backoff: second})
	begin := time.Now()
	counts, modelCounts := [3]int{}, [3]int{}
	var log []execution
	executions := make(chan execution, 100000)
	stop := start(t, q, 3, func(ctx context.Context, task *Task[int]) error {
		executions <- execution{int(time.Since(begin) / time.Second), task.Key}
		seconds, fails := duration(task.Key, counts[task.Key])
		counts[task.Key]++
		wait(ctx, time.Duration(seconds)*time.Second)
		if fails {
			return errors.New("broken")
		}
		return nil
	})
	now := 0
	settle := func() { // what ends and begins now
		m.end(now)
		m.begin(now, func(key int) (int, bool) {
			modelCounts[key]++
			return duration(key, modelCounts[key]-1)
		})
		synctest.Wait()
	}
	advance := func(seconds int) {
		settle()
		for range seconds {
			now++
			<-time.After(time.Second)
			settle()
		}
	}
	for i := 0; i+2 < len(script); i += 3 {
		key, after := int(script[i]%3), int(script[i+2]%10)
		advance(int(script[i+1] % 8))
		if script[i]/3%4 == 3 {
			m.forget(key)
			q.Forget(key)
		} else {
			m.add(now, key, after)
			q.AddAfter(key, time.Duration(after)*time.Second)
		}
	}
	advance(100)
	stop()
	close(executions)
	for e := range executions {
		log = append(log, e)
	}
	byTimeAndKey := func(a, b execution) int { return (a.at-b.at)*10 + a.key - b.key }
	slices.SortFunc(log, byTimeAndKey)
	slices.SortFunc(m.log, byTimeAndKey)
	require.Equal(t, m.log, log)
}
