package membership_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/hostler/hostler/internal/flow"
)

// The rules also hold when the database is silent or slow, when a machine is
// suspended, and when clocks jump. A live server is never taken over from.
func TestOutages(t *testing.T) {
	for name, test := range map[string]func(*cluster){
		"a renewal is late": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			a.setFault(on("Renew", func(ctx context.Context) error { return flow.Sleep(ctx, 3*time.Second) }))
			c.sleep(2 * time.Minute)
			c.requireEvents("a leads")
			assert.True(c, a.usesEngine())
		},
		"a renewal is answered late": func(c *cluster) {
			a := c.start("a")
			a.setAnswer(on("Renew", func(ctx context.Context) error { return flow.Sleep(ctx, 3500*time.Millisecond) }))
			c.sleep(9 * time.Second) // the renewal took from 5 s to 8.5 s
			a.disconnect()
			c.sleep(9 * time.Second)
			assert.True(c, a.usesEngine())
			c.sleep(2 * time.Second)
			assert.False(c, a.usesEngine(), "the renewal began a lease time ago")
			a.connect()
			c.requireEvents("a leads")
		},
		"two renewals are lost": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			lost := 0
			a.setFault(on("Renew", func(ctx context.Context) error {
				if lost++; lost%3 == 0 {
					return nil
				}
				return flow.Sleep(ctx, time.Hour) // its connection is silent
			}))
			for range 20 {
				c.sleep(7 * time.Second)
				assert.True(c, a.m.CheckLease() == nil || lost%3 == 0, "the third one is in time")
			}
			c.requireEvents("a leads")
		},
		"a server comes back while it is being fenced": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(6 * time.Second)
			b.disconnect()
			a.setFault(on("Fence", func(ctx context.Context) error { return flow.Sleep(ctx, 30*time.Second) }))
			c.sleep(25 * time.Second) // a has sent Fence
			b.connect()
			c.sleep(6 * time.Second)
			assert.True(c, b.usesEngine(), "it has renewed")
			silent := func(ctx context.Context) error { return flow.Sleep(ctx, 30*time.Second) }
			a.setFault(on("Renew", silent)) // the database is silent for all
			b.setFault(on("Renew", silent))
			c.sleep(40 * time.Second)
			a.connect()
			b.connect()
			c.sleep(time.Minute)
			c.requireEvents("a leads")
		},
		"a renewal is answered after the lease ended": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			c.sleep(time.Second)
			a.setAnswer(on("Renew", func(ctx context.Context) error { return flow.Sleep(ctx, 17*time.Second) }))
			c.sleep(16 * time.Second)
			assert.False(c, a.usesEngine())
			c.sleep(7 * time.Second)
			assert.False(c, a.usesEngine(), "the renewal began a lease time ago")
			a.setAnswer(nil)
			c.sleep(30 * time.Second)
			assert.True(c, a.usesEngine())
			c.requireEvents("a leads")
		},
		"the database is silent for one server, for less than its lease": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			c.sleep(6 * time.Second)
			a.disconnect()
			c.sleep(8 * time.Second)
			assert.True(c, a.usesEngine())
			a.connect()
			c.sleep(time.Minute)
			c.requireEvents("a leads")
		},
		"the database is silent for one server, for longer than its lease": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			c.sleep(6 * time.Second)
			a.disconnect()
			c.sleep(15 * time.Second)
			assert.False(c, a.usesEngine())
			c.sleep(10 * time.Second)
			c.requireEvents("a leads", "b takes over a-01", "b leads")
			a.connect()
			c.sleep(10 * time.Second)
			c.requireEvents("a exits")
		},
		"the database is silent for all": func(c *cluster) {
			for _, d := range []time.Duration{8 * time.Second, 12 * time.Second, 16 * time.Second, 21 * time.Second, 5 * time.Minute} {
				a, b := c.start("a"), c.start("b")
				c.sleep(6 * time.Second)
				a.disconnect()
				b.disconnect()
				c.sleep(d)
				b.connect()
				a.connect()
				c.sleep(time.Minute)
				c.requireEvents("a leads")
				assert.True(c, a.usesEngine())
				assert.True(c, b.usesEngine())
				a.leave()
				c.sleep(6 * time.Second)
				b.leave()
				c.requireEvents("a ends to lead", "b leads", "b ends to lead")
			}
		},
		"the database is silent for all, and for one of them longer": func(c *cluster) {
			a := c.start("a")
			c.sleep(4 * time.Second)
			b := c.start("b")
			c.sleep(7 * time.Second)
			a.disconnect()
			b.setFault(on("Renew", func(ctx context.Context) error { return flow.Sleep(ctx, 21*time.Second) }))
			c.sleep(11 * time.Second)
			a.connect() // it renews 13 s after its last renewal, and b 26 s after its own
			c.sleep(8 * time.Second)
			b.connect()
			c.sleep(time.Minute)
			c.requireEvents("a leads")
			assert.True(c, b.usesEngine())
		},
		"the database is silent for all while the expired servers are listed": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			slow := func(ctx context.Context) error { return flow.Sleep(ctx, 30*time.Second) }
			c.sleep(4 * time.Second)
			a.setFault(func(ctx context.Context, method string) error {
				if method == "Expired" || time.Since(c.began) > 7*time.Second {
					return slow(ctx)
				}
				return nil
			})
			c.sleep(2 * time.Second)
			b.setFault(on("Renew", slow))
			c.sleep(20 * time.Second)
			a.connect()
			b.connect()
			c.sleep(time.Minute)
			c.requireEvents("a leads")
			assert.True(c, b.usesEngine())
		},
		"a server starts during an outage of the database for the others": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(6 * time.Second)
			a.disconnect()
			b.disconnect()
			c.sleep(time.Minute)
			c.start("c")
			c.sleep(4 * time.Second)
			a.connect()
			b.connect()
			c.sleep(time.Minute)
			c.requireEvents("a leads")
			assert.True(c, a.usesEngine())
			assert.True(c, b.usesEngine())
		},
		"the machine of a leader is suspended": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			c.sleep(6 * time.Second)
			c.suspend(12*time.Second, a)
			c.sleep(10 * time.Second)
			c.requireEvents("a leads")
			assert.True(c, a.usesEngine())
			a.setFault(on("Renew", func(ctx context.Context) error { return flow.Sleep(ctx, 3*time.Second) }))
			c.suspend(time.Minute, a)
			c.requireEvents("b takes over a-01", "b leads")
			assert.False(c, a.usesEngine(), "before it renews")
			c.sleep(10 * time.Second)
			c.requireEvents("a exits")
		},
		"all machines are suspended": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(6 * time.Second)
			c.suspend(5*time.Minute, a, b)
			c.sleep(time.Minute)
			c.requireEvents("a leads")
			assert.True(c, a.usesEngine())
			assert.True(c, b.usesEngine())
		},
		"wall clocks jump": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			for _, by := range []time.Duration{time.Hour, -2 * time.Hour, 21 * time.Second, -21 * time.Second} {
				for _, n := range []*node{a, b} {
					c.sleep(7 * time.Second)
					n.setWall(by)
					c.sleep(6 * time.Second)
					assert.True(c, n.usesEngine(), "after its next renewal")
				}
			}
			c.sleep(time.Minute)
			c.requireEvents("a leads")
		},
		"the database's clock jumps": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(12*time.Second + 500*time.Millisecond)
			c.start("late")
			for _, by := range []time.Duration{time.Hour, -2 * time.Hour, 21 * time.Second, -21 * time.Second} {
				c.sleep(23 * time.Second) // after its renewal, and between those of the others
				c.db.ShiftClock(by)
				c.sleep(time.Minute)
				assert.True(c, a.usesEngine())
				assert.True(c, b.usesEngine())
			}
			c.requireEvents("a leads")
		},
		"the database's clock jumps before the expired servers are listed": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(time.Minute)
			jumped := false
			a.setFault(on("Expired", func(context.Context) error {
				if !jumped {
					jumped = true
					c.db.ShiftClock(time.Hour)
				}
				return nil
			}))
			c.sleep(time.Minute)
			assert.True(c, jumped)
			c.requireEvents("a leads")
			assert.True(c, b.usesEngine())
		},
		"an expired server comes back before it is fenced": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			c.sleep(6 * time.Second)
			a.disconnect()
			c.sleep(15 * time.Second)
			assert.False(c, a.usesEngine())
			a.connect()
			c.sleep(4 * time.Second)
			assert.True(c, a.usesEngine())
			c.sleep(time.Minute)
			c.requireEvents("a leads")
		},
	} {
		t.Run(name, func(t *testing.T) { inCluster(t, test) })
	}
}
