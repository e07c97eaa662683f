package membership_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/hostler/hostler/internal/flow"
)

// Whatever happens to servers, their clocks and their database, the rules hold,
// and afterwards one of the servers that are left leads.
func TestRandomAccidents(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inCluster(t, func(c *cluster) { accidents(c, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func accidents(c *cluster, random *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	slow := func(d time.Duration) func(context.Context, string) error {
		return func(ctx context.Context, _ string) error { return flow.Sleep(ctx, d) }
	}
	for i := range 3 {
		c.start(fmt.Sprint("first", i))
	}
	shifted := time.Time{}
	// No server can notice that its machine was suspended if its wall clock was set
	// back in the same seconds.
	suspends := random.IntN(2) == 0
	for i := range 40 {
		c.sleep(upTo(12 * time.Second))
		n := c.nodes[random.IntN(len(c.nodes))]
		switch random.IntN(11) {
		case 0:
			n.disconnect()
		case 1:
			n.setFault(slow(upTo(18 * time.Second)))
		case 2:
			n.setAnswer(slow(upTo(18 * time.Second)))
		case 3:
			n.connect()
			n.setAnswer(nil)
		case 4:
			if suspends {
				c.suspend(upTo(40*time.Second), n)
			}
		case 5:
			if !suspends {
				n.setWall(upTo(time.Minute) - 30*time.Second)
			}
		case 6:
			if time.Since(shifted) > 30*time.Second { // once between two renewals
				c.db.ShiftClock(upTo(time.Minute) - 30*time.Second)
				shifted = time.Now()
			}
		case 9:
			n.setAnswer(func(context.Context, string) error { return errSilent })
		case 10:
			unfinished := random.IntN(2) == 0
			n.db.Unfinished = func() bool { return unfinished }
			n.leftover = upTo(20 * time.Second)
			n.stop()
			c.sleep(upTo(5 * time.Second))
			n.stopRenewing()
			_ = n.m.Leave(c.Context()) // it fails while the database is silent
			go func() { _ = flow.Sleep(c.Context(), time.Minute); n.kill() }()
			c.start(fmt.Sprint("next", i))
		case 7:
			n.kill()
			c.start(fmt.Sprint("next", i))
		case 8:
			for _, n := range c.nodes {
				n.connect()
				n.setAnswer(nil)
			}
		}
	}
	c.start("last")
	for _, n := range c.nodes {
		n.connect()
		n.setAnswer(nil)
	}
	c.sleep(2 * time.Minute) // the database's clock was set back
	holder, _ := c.db.Term()
	leads := false
	var living []string
	for _, n := range c.nodes {
		if n.killed.Err() == nil {
			living = append(living, n.db.ID())
			assert.True(c, n.usesEngine(), n.name)
			leads = leads || n.db.ID() == holder
		}
	}
	slices.Sort(living)
	assert.Equal(c, living, c.db.IDs())
	assert.True(c, leads, "%s leads of %v", holder, living)
}
