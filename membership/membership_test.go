package membership_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/hostler/hostler/internal/flow"
)

// Every case checks all the time that no two leaders act, that no server that
// was fenced uses the engine, and that a server that is taken over can no longer
// write.
func TestMembership(t *testing.T) {
	for name, test := range map[string]func(*cluster){
		"the first leader of an empty database": func(c *cluster) {
			a := c.start("a")
			c.requireEvents("a leads")
			assert.True(c, a.usesEngine())
			c.sleep(10 * time.Minute)
			assert.True(c, a.usesEngine())
			c.requireEvents()
		},
		"two servers campaign": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(time.Minute)
			c.requireEvents("a leads")
			assert.True(c, a.usesEngine())
			assert.True(c, b.usesEngine())
			assert.Equal(c, []bool{true, false}, []bool{a.m.Leads(), b.m.Leads()})
		},
		"the leader is killed": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			c.sleep(11 * time.Second)
			a.kill()
			c.sleep(18 * time.Second)
			c.requireEvents("a leads")
			c.sleep(7 * time.Second)
			c.requireEvents("b takes over a-01", "b leads")
			assert.Equal(c, []string{"b-02"}, c.db.IDs())
		},
		"another server is killed": func(c *cluster) {
			c.start("a")
			b := c.start("b")
			c.sleep(11 * time.Second)
			b.kill()
			c.sleep(24 * time.Second)
			c.requireEvents("a leads", "a takes over b-02")
		},
		"many servers expire at once": func(c *cluster) {
			a := c.start("a")
			for _, name := range []string{"b", "c", "d", "e"} {
				c.sleep(300 * time.Millisecond)
				n := c.start(name)
				n.stop()
				c.sleep(10 * time.Second)
				defer n.kill()
			}
			for _, n := range c.nodes[1:] {
				n.kill()
			}
			failed := false
			a.takeOver = func(replica string) error {
				if replica == "b-02" && !failed {
					failed = true
					return errors.New("failed once")
				}
				return nil
			}
			c.sleep(32 * time.Second)
			c.mu.Lock()
			assert.ElementsMatch(c, []string{
				"a leads", "a takes over b-02", "a takes over c-03", "a takes over d-04", "a takes over e-05", "a takes over b-02",
			}, c.events)
			c.mu.Unlock()
			assert.Equal(c, []string{"a-01"}, c.db.IDs())
		},
		"a leader is replaced and not fenced yet": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(6 * time.Second)
			a.disconnect()
			// b leads in the database, and does not come to fence a.
			b.setFault(on("Expired", func(context.Context) error { return errSilent }))
			c.sleep(25 * time.Second)
			_, term := c.db.Term()
			assert.EqualValues(c, 2, term)
			assert.False(c, a.m.Leads(), "its lease has expired, so that there are not two")
			a.connect()
			c.sleep(5 * time.Second)
			c.requireEvents("a leads", "a exits")
			b.connect()
			c.sleep(30 * time.Second)
			c.requireEvents("b takes over a-01", "b leads")
		},
		"the answer of a campaign is so late that another server leads": func(c *cluster) {
			until := func(at time.Duration) func(context.Context) error {
				return func(ctx context.Context) error { return flow.Sleep(ctx, time.Until(c.began.Add(at))) }
			}
			c.startWith("a", func(n *node) {
				n.answer = on("Campaign", until(28*time.Second))
				n.fault = func(ctx context.Context, method string) error {
					if method == "Renew" && time.Since(c.began) > time.Second {
						return until(25*time.Second + 500*time.Millisecond)(ctx)
					}
					return nil
				}
			})
			c.start("b").setFault(on("Expired", func(ctx context.Context) error { return flow.Sleep(ctx, time.Second) }))
			c.sleep(25 * time.Second)
			_, term := c.db.Term()
			assert.EqualValues(c, 2, term)
			c.sleep(time.Minute) // a renews before b lists the expired servers
			c.requireEvents("a exits", "b takes over a-01", "b leads")
		},
		"the leadership is lost in a failover": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(6 * time.Second)
			b.disconnect()
			c.sleep(time.Second)
			c.db.LoseLeadership()
			c.sleep(5 * time.Second)
			c.requireEvents("a leads", "a exits")
			assert.False(c, a.usesEngine())
			b.connect()
			c.sleep(30 * time.Second)
			c.requireEvents("b leads", "b takes over a-01")
		},
		"the leadership is lost while its campaign is confirmed": func(c *cluster) {
			c.startWith("a", func(n *node) {
				n.answer = on("Campaign", func(context.Context) error { c.db.LoseLeadership(); return nil })
			})
			c.sleep(6 * time.Second)
			c.requireEvents("a exits")
		},
		"a takeover fails half-way": func(c *cluster) {
			a := c.start("a")
			b := c.start("b")
			failures := 3
			b.takeOver = func(replica string) error {
				if failures--; failures >= 0 {
					return errors.New("failed")
				}
				return nil
			}
			c.sleep(6 * time.Second)
			a.kill()
			c.sleep(30 * time.Second)
			c.requireEvents("a leads", "b takes over a-01", "b takes over a-01", "b takes over a-01", "b takes over a-01", "b leads")
			assert.Equal(c, []string{"b-02"}, c.db.IDs())
		},
		"a server is killed during a takeover": func(c *cluster) {
			a := c.start("a")
			c.sleep(time.Second)
			b := c.start("b")
			b.takeOver = func(string) error { b.kill(); return errors.New("killed") }
			c.sleep(7 * time.Second)
			c.start("c")
			a.kill()
			c.sleep(70 * time.Second)
			c.requireEvents("a leads", "b takes over a-01", "c takes over a-01", "c takes over b-02", "c leads")
			assert.Equal(c, []string{"c-03"}, c.db.IDs())
		},
		"stop while leading": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(6 * time.Second)
			a.leftover = 40 * time.Second
			a.stop()
			c.sleep(39 * time.Second)
			c.requireEvents("a leads")
			assert.True(c, a.usesEngine())
			c.sleep(7 * time.Second)
			c.requireEvents("a ends to lead", "b leads")
			assert.NoError(c, <-a.runErr)
			assert.True(c, a.usesEngine(), "requests in progress")
			a.leave()
			c.sleep(time.Minute)
			c.requireEvents()
			assert.True(c, b.usesEngine())
		},
		"stop that does not lead": func(c *cluster) {
			a := c.start("a")
			b := c.start("b")
			b.stop()
			assert.NoError(c, <-b.runErr)
			a.leave()
			c.sleep(time.Minute)
			c.requireEvents("a leads", "a ends to lead")
		},
		"stop that hangs": func(c *cluster) {
			a := c.start("a")
			c.start("b")
			c.sleep(6 * time.Second)
			a.leftover = time.Hour
			a.db.Unfinished = func() bool { return true }
			a.stop()
			c.sleep(45 * time.Second)
			c.requireEvents("a leads")
			a.leave()
			assert.False(c, a.usesEngine(), "its work is taken over")
			c.sleep(5 * time.Second)
			c.requireEvents("b takes over a-01", "b leads")
			assert.False(c, a.usesEngine())
		},
		"resignation during a renewal": func(c *cluster) {
			a := c.start("a")
			c.sleep(6 * time.Second)
			a.setFault(on("Renew", func(ctx context.Context) error { return flow.Sleep(ctx, 2*time.Second) }))
			c.sleep(5 * time.Second)
			a.stop()
			c.sleep(10 * time.Second)
			c.requireEvents("a leads", "a ends to lead")
			assert.True(c, a.usesEngine())
		},
		"campaign during a renewal": func(c *cluster) {
			a := c.start("a")
			b := c.start("b")
			b.setAnswer(on("Renew", func(ctx context.Context) error { return flow.Sleep(ctx, time.Second) }))
			b.setFault(on("Campaign", func(ctx context.Context) error { return flow.Sleep(ctx, 5500*time.Millisecond) }))
			c.sleep(6 * time.Second)
			a.leave()
			c.sleep(time.Minute)
			c.requireEvents("a leads", "a ends to lead", "b leads")
		},
		"the answer of a campaign is lost": func(c *cluster) {
			a := c.start("a")
			b := c.start("b")
			b.setAnswer(on("Campaign", func(context.Context) error { return errSilent }))
			a.leave()
			c.sleep(time.Minute)
			b.setAnswer(nil)
			c.sleep(6 * time.Second)
			c.requireEvents("a leads", "a ends to lead", "b leads")
		},
		"leave while the leader's work continues": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			c.sleep(6 * time.Second)
			a.leftover = 30 * time.Second
			a.db.Unfinished = func() bool { return true }
			a.setFault(on("Deregister", func(ctx context.Context) error { return flow.Sleep(ctx, 12*time.Second) }))
			a.stop()
			c.sleep(time.Second)
			a.stopRenewing()
			left := make(chan error)
			go func() { left <- a.m.Leave(c.Context()) }()
			c.sleep(11 * time.Second)
			c.requireEvents("a leads")
			assert.NoError(c, <-left)
			assert.True(c, c.db.HasFenced(a.db.ID()), "no other server leads while it can write")
			c.sleep(time.Minute)
			c.requireEvents("b takes over a-01", "b leads", "a ends to lead")
			assert.True(c, b.usesEngine())
		},
		"work without a server appears while a server leads": func(c *cluster) {
			a := c.start("a")
			resumed := 0
			a.takeOver = func(replica string) error { resumed++; return nil }
			c.sleep(10 * time.Minute)
			assert.InDelta(c, 10, resumed, 2)
			c.requireEvents("a leads")
		},
		"stop during a campaign": func(c *cluster) {
			a, b := c.start("a"), c.start("b")
			silent := func(ctx context.Context) error { return flow.Sleep(ctx, time.Hour) }
			b.setAnswer(on("Campaign", silent))
			a.leave()
			c.sleep(6 * time.Second)
			holder, _ := c.db.Term()
			assert.Equal(c, b.db.ID(), holder)
			c.start("c")
			b.stop()
			c.sleep(6 * time.Second)
			c.requireEvents("a leads", "a ends to lead", "c leads")
			assert.True(c, b.usesEngine(), "requests in progress")
		},
		"a server left with unfinished work": func(c *cluster) {
			a := c.start("a")
			a.db.Unfinished = func() bool { return true }
			a.leave()
			c.start("b") // its grace does not apply: a reported that it has left
			c.requireEvents("a leads", "a ends to lead", "b takes over a-01", "b leads")
		},
	} {
		t.Run(name, func(t *testing.T) { inCluster(t, test) })
	}
}

// leave stops the server as its process does: the work, the renewals, the row.
func (n *node) leave() {
	n.stop()
	n.c.sleep(time.Second)
	n.stopRenewing()
	synctest.Wait()
	assert.NoError(n.c, n.m.Leave(n.c.Context()))
	n.c.sleep(time.Millisecond)
}
