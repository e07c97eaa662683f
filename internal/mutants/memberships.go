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
		file: "membership/leader.go",
		old:  `asOf := m.lease.othersTime()`,
		new:  `asOf := time.Now().Add(LeaseTime)`,
	},
	{
		desc: "a server becomes leader in place of one that it may not judge", test: "TestOutages",
		file: "membership/leader.go",
		old:  `m.db.Campaign(ctx, m.lease.othersTime())`,
		new:  `m.db.Campaign(ctx, m.lease.time.Add(LeaseTime))`,
	},
	{
		desc: "a server that came back is fenced by a request from before", test: "TestOutages",
		file: "membership/leader.go",
		old:  `m.db.Fence(ctx, r.ID, asOf)`,
		new:  `m.db.Fence(ctx, r.ID, asOf.Add(time.Hour))`,
	},
	{
		desc: "a server leads because of a campaign that is not confirmed", test: "TestMembership",
		file: "membership/leader.go",
		old:  `if err = m.renew(ctx); err == nil {`,
		new:  `if err == nil {`,
	},
	{
		desc: "a server that stops keeps a leadership of which it was not told", test: "TestMembership",
		file: "membership/leader.go",
		old:  `mayLead = term > 0 || err != nil`,
		new:  `mayLead = term > 0`,
	},
	{
		desc: "work without a server is looked for once", test: "TestMembership",
		file: "membership/leader.go",
		old:  `time.Now().Add(orphansInterval)`,
		new:  `time.Now().Add(1000 * orphansInterval)`,
	},
	{
		desc: "one attempt to renew lasts as long as the lease", test: "TestOutages",
		file: "membership/store.go",
		old:  `renewTimeout = 4 * time.Second`,
		new:  `renewTimeout = LeaseTime`,
	},
	{
		desc: "a failed renewal is repeated with the next heartbeat", test: "TestOutages",
		file: "membership/store.go",
		old:  `renewRetryDelay = time.Second`,
		new:  `renewRetryDelay = HeartbeatInterval`,
	},
	{
		desc: "a leader is replaced and not fenced", test: "TestMembership",
		file: "store/leases.go",
		old: `				if err := fenceLeader(t, l.holder); err != nil {
					return err
				}
`,
	},
	{
		desc: "a leader is replaced although it has renewed in the meantime", test: "TestCampaignDuringRenewal",
		file: "store/leases.go",
		old: `
		AND holder = $5 AND epoch = $6 AND expires_at = $7`,
		new: `
		AND ($5 || $6 || $7) <> ''`,
	},
	{
		desc: "a fence is judged by the time at which it arrives", test: "TestMembership",
		file: "store/replicas.go",
		old:  `if !r.HasLeft() && !r.ExpiresAt.Before(db.expiryDeadline(now, asOf)) {`,
		new:  `if !r.ExpiresAt.Before(db.expiryDeadline(now, now)) {`,
	},
	{
		desc: "a server that leaves overlooks work that it has just begun", test: "TestDeregisterDuringChange",
		file: "store/replicas.go",
		old:  `scanReplica(t.query(selectReplica+forUpdate, self.ID))`,
		new:  `scanReplica(t.query(selectReplica, self.ID))`,
	},
	{
		desc: "a server that left with work changes more", test: "TestDeregister",
		file: "store/replicas.go",
		old:  `SET epoch = epoch + 1, expires_at = 0`,
		new:  `SET expires_at = 0`,
	},
	{
		desc: "a server that left has the leadership", test: "TestMembership",
		file: "store/replicas.go",
		old:  `		return t.execLater(endLease, leaderLease, self.ID)`,
		new:  `		return nil`,
	},
	{
		desc: "a silent connection is waited for", test: "TestRenewalOnSilentConnections",
		file: "store/postgres.go",
		old:  `config.PingTimeout = pingTimeout`,
		new:  `config.PingTimeout = 0`,
	},
	{
		desc: "lost connections keep their places", test: "TestLostConnectionIsClosed",
		file: "store/postgres.go",
		old:  `if conn.IsClosed() {`,
		new:  `if conn == nil {`,
	},
	{
		desc: "a renewal continues after its time", test: "TestRenewalLosesItsConnection",
		file: "store/postgres.go",
		old:  `stopsWithCaller: true`,
		new:  `stopsWithCaller: false`,
	},
	{
		desc: "a lost renewal blocks the next one", test: "TestRenewalFitsItsTime",
		file: "store/postgres.go",
		old:  `leaseConfig(config), shortCommits`,
		new:  `leaseConfig(config), durableCommits`,
	},
	{
		desc: "a renewal waits for the connections of changes", test: "TestRenewalDoesNotWaitForChanges",
		file: "store/postgres.go",
		old:  `postgresWriter{pool: leases,`,
		new:  `postgresWriter{pool: []*pgxpool.Pool{write, leases}[0],`,
	},
}
