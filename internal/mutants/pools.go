package main

// pools are mutations of package pool.
var pools = []mutation{
	{
		desc: "a container that a claim has destroyed counts as a failed creation", test: "TestContainerClaimedAfterCreate",
		file: "pool/provisioner.go",
		old:  `err == nil && c.State != Idle {`,
		new:  `err == nil && c.State == Creating {`,
	},
	{
		desc: "a container whose creation failed is not destroyed", test: "TestCreateFailureIsRolledBack",
		file: "pool/provisioner.go",
		old: `			return p.beginDestroyBy(ctx, failed.record(BeginDestroy(c.ID, []State{Creating, Idle}, failed.reason)))
`,
		new: `			return nil
`,
	},
	{
		desc: "a container that exited before it was idle is assigned", test: "TestUnobservedExitBeforeIdle",
		file: "pool/provisioner.go",
		old:  `	return failure`,
		new:  `	return nil`,
	},
	{
		desc: "a container has no baseline", test: "TestCreateStepOrder",
		file: "pool/provisioner.go", pkg: "claim",
		old: `			return p.rt.RecordBaseline(ctx, c.ID, c.Fence)
`,
		new: `			return nil
`,
	},
	{
		desc: "the baseline is taken before post_create", test: "TestCreateStepOrder",
		file: "pool/provisioner.go", pkg: "claim",
		old: `		flow.Step{Name: string(hooks.PostCreate), Do: p.fire(hooks.PostCreate, w, subject)},
		flow.Step{Name: "baseline", Do: func(ctx context.Context) error {
			if !needsBaseline {
				return nil
			}
			return p.rt.RecordBaseline(ctx, c.ID, c.Fence)
		}},
`,
		new: `		flow.Step{Name: "baseline", Do: func(ctx context.Context) error {
			if !needsBaseline {
				return nil
			}
			return p.rt.RecordBaseline(ctx, c.ID, c.Fence)
		}},
		flow.Step{Name: string(hooks.PostCreate), Do: p.fire(hooks.PostCreate, w, subject)},
`,
	},
	{
		desc: "a removal skips pre_destroy when the engine is unavailable", test: "TestPreDestroyWaitsForTheEngine",
		file: "hooks/runner/runner.go", pkg: "pool",
		old: `	case errors.Is(err, runtime.ErrUnavailable):
		return "", err
`,
		new: `	case ctx.Err() == context.DeadlineExceeded:
		return "", err
`,
	},
	{
		desc: "a stopping server cancels pre_destroy", test: "TestPreDestroySurvivesShutdown",
		file: "hooks/runner/runner.go", pkg: "pool",
		old: `	if !rule.Aborts && !rule.OfWait {
		ctx =`,
		new: `	if !rule.Aborts && !rule.OfWait && ctx.Err() != nil {
		ctx =`,
	},
	{
		desc: "a container that cannot be removed is recorded as destroyed", test: "TestDestroyBacksOff",
		file: "pool/provisioner.go",
		old: `	return p.rt.Destroy(ctx, id)
`,
		new: `	_ = p.rt.Destroy(ctx, id)
	return nil
`,
	},
	{
		desc: "a container reserved for its last tenant counts towards min_idle", test: "TestIdleTimeoutOfTenantBoundContainers",
		file: "pool/scaledown.go",
		old: `		case k.Used && reuse != workload.ReuseWipe:
			t.tenantBound += k.N
`,
	},
	{
		desc: "the most recently used container is evicted", test: "TestLeastRecentlyUsedIsEvicted",
		file: "pool/scaledown.go",
		old: `return a.ChangedAt.Compare(b.ChangedAt) })
	evicted`,
		new: `return b.ChangedAt.Compare(a.ChangedAt) })
	evicted`,
	},
	{
		desc: "another container is evicted while one is being destroyed", test: "TestOneEvictionPerWaitingClaim",
		file: "pool/scaledown.go",
		old:  `	shortfall := wanted - max(d.room, 0) - t.destroying //`,
		new:  `	shortfall := wanted - max(d.room, 0) //`,
	},
	{
		desc: "one container too many is evicted", test: "TestOneEvictionPerWaitingClaim",
		file: "pool/scaledown.go",
		old:  `		return f.evict(ctx, d.r.ID, shortfall, matchIf("the pool`,
		new:  `		return f.evict(ctx, d.r.ID, shortfall+1, matchIf("the pool`,
	},
	{
		desc: "a container kept for its tenant is evicted although creation fails", test: "TestNoEvictionWhileCreateFails",
		file: "pool/scaledown.go",
		old:  `	if d.breaker.of(d.r.Revision).Failures > 0 {`,
		new:  `	if d.breaker.of(d.r.Revision).Failures < 0 {`,
	},
	{
		desc: "a container that the database does not know is removed at once", test: "TestOrphanGraceAcrossReconciles",
		file: "pool/orphans.go",
		old:  `ok && time.Since(firstSeen) >= orphanGrace`,
		new:  `ok && !firstSeen.IsZero()`,
	},
	{
		desc: "a container with a live record is removed as unknown", test: "TestRestartAfterCrash",
		file: "pool/orphans.go",
		old:  `	case c.State != Destroyed:`,
		new:  `	case c.State == Creating:`,
	},
	{
		desc: "a container is removed before its event is recorded", test: "TestDestroyIsRecordedFirst",
		file: "pool/orphans.go",
		old: `	if _, recorded := w.removing.Load(k); !recorded {
`,
		new: `	if err := w.rt.Destroy(ctx, k.id); err != nil {
		return err
	}
	if _, recorded := w.removing.Load(k); !recorded {
`,
	},
	{
		desc: "the exit of an exited container is reported again", test: "TestExitReportedOnce",
		file: "pool/watcher.go",
		old:  `c.State != Claimed) || c.Health == Exited {`,
		new:  `c.State != Claimed) {`,
	},
	{
		desc: "a container without a status from the engine counts as exited", test: "TestUnlistedContainerIsProbed",
		file: "pool/watcher.go",
		old:  `		case !ok && !errors.Is(err, runtime.ErrNotFound):`,
		new:  `		case !ok && errors.Is(err, ErrFull):`,
	},
	{
		desc: "retained containers never count against max_size", test: "TestRetainedContainersFreeSlots",
		file: "pool/store.go", pkg: "release",
		old: `return total - min(kept, maxSize) }`,
		new: `return total - min(kept, 10*maxSize) }`,
	},
	{
		desc: "a container is destroyed by force before that is recorded", test: "TestDestroyIsRecordedFirst",
		file: "pool/force.go",
		old: `			_, err := m.store.UpdateContainer(ctx, change)
`,
		new: `			_ = m.rt.Destroy(ctx, id)
			_, err := m.store.UpdateContainer(ctx, change)
`,
	},
	{
		desc: "a health check counts although the container changed owners during it", test: "TestHealthCheckDuringReleaseIsIgnored",
		file: "pool/health.go",
		old:  `	if err != nil || !after.ChangedAt.Equal(before.ChangedAt) {`,
		new:  `	if err != nil {`,
	},
	{
		desc: "a failed removal is retried every second", test: "TestDestroyBacksOff",
		file: "pool/reaper.go",
		old:  `Backoff: engineRetries,`,
		new:  `Backoff: storeRetries,`,
	},
	{
		desc: "the event of a destruction does not have the state before", test: "TestDestroyingHasPreviousState",
		file: "pool/transition.go",
		old:  `PreviousState: string(c.State)`,
		new:  `PreviousState: ""`,
	},
	{
		desc: "room is made for a claim that has its container", test: "TestServedClaimMakesNoRoom",
		file: "pool/filler.go",
		old:  `	d.missing -= d.served`,
		new:  `	d.missing -= 0`,
	},
	{
		desc: "a container in creation by a terminated server is not destroyed", test: "TestInterruptedCreateIsDestroyed",
		file: "pool/pool.go",
		old:  `BeginDestroy(id, []State{Creating}, "the server stopped while it was being created"))`,
		new:  `BeginDestroy(id, []State{Destroyed}, "the server stopped while it was being created"))`,
	},
	{
		desc: "the comparison with the engine blocks the watch", test: "TestHungListDoesNotBlockWatch",
		file: "pool/watcher.go",
		old: `				select {
				case w.connected <- struct{}{}:
`,
		new: `				_ = w.reconcile(ctx)
				select {
				case w.connected <- struct{}{}:
`,
	},
	{
		desc: "the engine may take any time to list containers", test: "TestHungListDoesNotBlockWatch",
		file: "pool/watcher.go",
		old:  `context.WithTimeoutCause(ctx, listTimeout, errListTimeout)`,
		new:  `context.WithCancel(ctx)`,
	},
	{
		desc: "the engine may take any time to return the status of a container", test: "TestHungStatusDoesNotBlockReconcile",
		file: "pool/watcher.go",
		old:  `context.WithTimeoutCause(ctx, statusTimeout, errStatusTimeout)`,
		new:  `context.WithCancel(ctx)`,
	},
	{
		desc: "a container that was started after the list was read is recorded as exited", test: "TestReconcileReadsStatusOfExited",
		file: "pool/watcher.go",
		old:  `		case err == nil && status.State == runtime.Running:`,
		new:  `		case err == nil && status.State == "":`,
	},
	{
		desc: "filling does not yield to claims", test: "TestFillYieldsToClaims",
		file: "pool/filler.go",
		old:  `	if d.waiting > 0 {`,
		new:  `	if d.waiting >= 0 {`,
	},
	{
		desc: "filling yields though a claim waits", test: "TestWaitingClaimsDoNotYield",
		file: "pool/filler.go",
		old:  `	if d.waiting > 0 {`,
		new:  `	if d.waiting < 0 {`,
	},
	{
		desc: "the end of the last claim does not wake the pools that yielded", test: "TestQuietWakes",
		file: "pool/yield.go",
		old:  `		time.AfterFunc(quietTime, y.wakeIfQuiet)`,
		new:  `		_ = y.wakeIfQuiet`,
	},
	{
		desc: "filling begins in the gap between two claims", test: "TestFillDoesNotBeginBetweenClaims",
		file: "pool/yield.go",
		old:  `return y.claims == 0 && now.Sub(y.lastEnd) >= quietTime`,
		new:  `return y.claims == 0`,
	},
	{
		desc: "a pool that has yielded is filled at full speed", test: "TestFillYieldsToClaims",
		file: "pool/filler.go",
		old: `	f.yielder.restart(t.Key)
`,
	},
	{
		desc: "a pool that finds no slot yields again", test: "TestYieldedPoolStaysDue",
		file: "pool/yield.go",
		old: `	if !due.After(now) {
`,
		new: `	if !due.After(now) {
		y.since[id] = now
`,
	},
	{
		desc: "an empty pool yields as long as a full one", test: "TestYieldingKeepsAStock",
		file: "pool/yield.go",
		old:  `time.Duration(min(usable, full))`,
		new:  `time.Duration(full)`,
	},
	{
		desc: "a full pool is remembered as one that yields", test: "TestYieldsAfterALongClaim",
		file: "pool/filler.go",
		old: `		f.yielder.forget(id)
`,
		new: `		_ = id
`,
	},
	{
		desc: "a pool that began to yield after its removal yields forever", test: "TestRemovedPoolYieldsNoLonger",
		file: "pool/filler.go",
		old: `	d, err := f.assess(ctx, t.Key)
	d.missing -= d.served`,
		new: `	d, err := f.readDemand(ctx, t.Key)
	d.missing -= d.served`,
	},
	{
		desc: "room is made before the pool yields", test: "TestRoomIsMadeAfterYielding",
		file: "pool/filler.go",
		old: `	if until := f.postponed(d); !until.IsZero() {
`,
		new: `	_ = f.makeRoom(ctx, d)
	if until := f.postponed(d); !until.IsZero() {
`,
	},
	{
		desc: "a resumed claim is not yielded to", test: "TestResumedClaimsAreYieldedTo",
		file: "claim/recover.go", pkg: "pool",
		old: `endWork := s.pools.BeginClaim()`,
		new: `endWork := func() {}`,
	},
	{
		desc: "each container that a claim tries counts as a claim", test: "TestClaimIsYieldedToOnce",
		file: "claim/steps.go", pkg: "pool",
		old: `	if a.endWork == nil {`,
		new: `	if a.endWork == nil || a.claim.ID != "" {`,
	},
	{
		desc: "a claim that failed stays in progress", test: "TestFailedClaimDoesNotHoldUpFilling",
		file: "claim/steps.go", pkg: "pool",
		old: `	defer a.finishWork()
`,
	},
	{
		desc: "a claim holds up filling as long as it likes", test: "TestYieldingIsBounded",
		file: "pool/yield.go",
		old:  `time.AfterFunc(maxClaimYield, stop)`,
		new:  `time.AfterFunc(time.Hour, stop)`,
	},
	{
		desc: "health checks of one workload can use all slots", test: "TestHangingChecksDoNotDelayOthers",
		file: "pool/health.go",
		old:  `PerGroup: checksPerWorkload,`,
		new:  `PerGroup: 0,`,
	},
	{
		desc: "one workload can use all slots for creating", test: "TestConcurrentCreates",
		file: "pool/filler.go",
		old:  `PerGroup: createsPerWorkload,`,
		new:  `PerGroup: 0,`,
	},
	{
		desc: "one container of a workload is created at a time", test: "TestConcurrentCreates",
		file: "pool/filler.go",
		old: `	t.Detach()
`,
		new: `	_ = t
`,
	},
	{
		desc: "a container is created although the pool drains", test: "TestConcurrentCreates",
		file: "pool/filler.go",
		old:  ` || d.r.Draining || d.missing <= 0 {`,
		new:  ` || d.missing <= 0 {`,
	},
	{
		desc: "a removal in its grace period uses a slot", test: "TestSlowStopsDoNotBlockOthers",
		file: "pool/reaper.go",
		old:  `r.destroy(ctx, t.Key.id, t.Park)`,
		new:  `r.destroy(ctx, t.Key.id, func() {})`,
	},
	{
		desc: "a container is replaced before its failure is on record", test: "TestCreateFailuresBackOff",
		file: "pool/filler.go",
		old:  `max(d.counts.creating, held)`,
		new:  `max(d.counts.creating, 0*held)`,
	},
	{
		desc: "a container that exited is replaced before that is on record", test: "TestCrashLoopBacksOff",
		file: "pool/pool.go",
		old:  `	release := p.filler.hold(c, nil)`,
		new:  `	release := func() {}`,
	},
	{
		desc: "a success ends the backoff of a crash loop", test: "TestCrashLoopBacksOff",
		file: "pool/filler.go",
		old: `b.Failures > 0 && !b.CrashLooping {
		f.recordRecovery(ctx, b, false)`,
		new: `b.Failures > 0 {
		f.recordRecovery(ctx, b, b.CrashLooping)`,
	},
}
