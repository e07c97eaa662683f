package main

// memberships are mutations of package membership: of what keeps two servers from
// acting at once.
var memberships = []mutation{
	{
		desc: "a server without a lease uses the engine", test: "TestGuardBlocksEveryChange",
		file: "membership/guard.go",
		old: `	if err := g.member.CheckLease(); err != nil {
		return err
	}
`,
		new: "",
	},
	{
		desc: "one method of the runtime does not check the lease", test: "TestGuardBlocksEveryChange",
		file: "membership/guard.go",
		old:  `	return g.held(func() error { return g.Runtime.Wipe(ctx, id, fence) })`,
		new:  `	return g.Runtime.Wipe(ctx, id, fence)`,
	},
	{
		desc: "a server that has left uses the engine", test: "TestMembership",
		file: "membership/member.go",
		old: `	m.lease.giveUp()
	ctx, cancel`,
		new: `	ctx, cancel`,
	},
	{
		desc: "a lease is trusted from the answer to its renewal", test: "TestOutages",
		file: "membership/member.go",
		old:  `	m.recordRenewal(begin, at)`,
		new:  `	begin = m.lease.clock(); m.recordRenewal(begin, at)`,
	},
	{
		desc: "a lease is trusted for longer than it lasts", test: "TestOutages",
		file: "membership/lease.go",
		old:  `now.since(l.begin) < LeaseTime`,
		new:  `now.since(l.begin) < LeaseTime+2*TakeoverMargin`,
	},
	{
		desc: "the time during which the machine was suspended does not count", test: "TestOutages",
		file: "membership/lease.go",
		old:  `	return max(r.mono-earlier.mono, r.wall.Sub(earlier.wall))`,
		new:  `	return r.mono - earlier.mono`,
	},
	{
		desc: "a wall clock that was set back prolongs a lease", test: "TestRandomAccidents",
		file: "membership/lease.go",
		old:  `	return max(r.mono-earlier.mono, r.wall.Sub(earlier.wall))`,
		new:  `	return r.wall.Sub(earlier.wall)`,
	},
	{
		desc: "a fenced server does not exit", test: "TestOutages",
		file: "membership/member.go",
		old:  `		case errors.Is(err, ErrFenced), errors.Is(err, ErrReplaced):`,
		new:  `		case errors.Is(err, ErrReplaced):`,
	},
	{
		desc: "a leader that was replaced does not exit", test: "TestMembership",
		file: "membership/member.go",
		old:  `		case errors.Is(err, ErrFenced), errors.Is(err, ErrReplaced):`,
		new:  `		case errors.Is(err, ErrFenced):`,
	},
	{
		desc: "a leader that was replaced renews its lease", test: "TestMembership",
		file: "membership/member.go",
		old:  `m.db.Renew(ctx, m.leads.Load())`,
		new:  `m.db.Renew(ctx, false)`,
	},
	{
		desc: "a server exits when its renewal was concurrent with its resignation", test: "TestMembership",
		file: "membership/member.go",
		old:  `	if errors.Is(err, ErrReplaced) && !m.leads.Load() {`,
		new:  `	if errors.Is(err, ErrReplaced) && m.db == nil {`,
	},
	{
		desc: "a leader begins before the last one is fenced", test: "TestMembership",
		file: "membership/leader.go",
		old:  `	for first := true; first || t.incomplete; first = false {`,
		new:  `	for first := true; first; first = false {`,
	},
	{
		desc: "the work of a server is resumed before the others are fenced", test: "TestMembership",
		file: "membership/leader.go",
		old:  `			t.fenced[r.ID] = fenced`,
		new: `			if err := t.finish(ctx, fenced); err != nil {
				t.failed(ctx, err)
			}`,
	},
	{
		desc: "a failed takeover is not repeated", test: "TestMembership",
		file: "membership/leader.go",
		old: `			t.failed(ctx, fmt.Errorf("take over from server %s: %w", id, err))
			continue
`,
		new: `			t.failed(ctx, fmt.Errorf("take over from server %s: %w", id, err))
`,
	},
	{
		desc: "the leadership is resigned while the leader's work still runs", test: "TestMembership",
		file: "membership/leader.go",
		old:  `	g.Go(func() error { return c.OnLead(ctx) })`,
		new: `	g.Go(func() error {
		go c.OnLead(ctx)
		<-ctx.Done()
		return nil
	})`,
	},
	{
		desc: "the leadership is not resigned", test: "TestMembership",
		file: "membership/leader.go",
		old:  `	return m.db.Resign(ctx)`,
		new:  `	return nil`,
	},
	{
		desc: "a server judges others although its own lease lapsed", test: "TestOutages",
		file: "membership/lease.go",
		old:  `	if !l.isHeldAt(now) || now.mono < l.graceUntil {`,
		new:  `	if now.mono < l.graceUntil {`,
	},
	{
		desc: "a server judges others right after its start", test: "TestOutages",
		file: "membership/lease.go",
		old:  `	if !l.valid || gap > maxRenewalGap || at.Sub(l.time) > gap+maxClockDrift {`,
		new:  `	if l.valid && (gap > maxRenewalGap || at.Sub(l.time) > gap+maxClockDrift) {`,
	},
	{
		desc: "a server judges others right after an outage of the database", test: "TestOutages",
		file: "membership/lease.go",
		old:  `	if !l.valid || gap > maxRenewalGap ||`,
		new:  `	if !l.valid ||`,
	},
	{
		desc: "only an outage that is longer than a lease counts", test: "TestOutages",
		file: "membership/lease.go",
		old:  `gap > maxRenewalGap`,
		new:  `gap > LeaseTime`,
	},
	{
		desc: "a server judges others right after a jump of the database's clock", test: "TestOutages",
		file: "membership/lease.go",
		old:  ` || at.Sub(l.time) > gap+maxClockDrift {`,
		new:  ` {`,
	},
	{
		desc: "a jump of the database's clock since the last renewal expires others", test: "TestOutages",
		file: "membership/lease.go",
		old:  `r.ExpiresAt.Before(l.othersTime().Add(-TakeoverMargin))`,
		new:  `!l.othersTime().IsZero()`,
	},
	{
		desc: "a server becomes leader in place of one that it may not judge", test: "TestOutages",
		file: "membership/leader.go",
		old:  `m.db.Campaign(ctx, m.lease.othersTime())`,
		new:  `m.db.Campaign(ctx, m.lease.time.Add(LeaseTime))`,
	},
}
