package main

// pools are changes of package pool.
var pools = []mutation{
	{
		desc: "a container whose making failed is not given up", test: "TestCreateUndoes",
		file: "pool/maker.go",
		old: `				return m.condemn(ctx, c.ID, []State{Creating, Idle}, cause.Error())
`,
		new: `				return nil
`,
	},
	{
		desc: "a container that died before it was idle is handed out", test: "TestDeathInTheLastMoment",
		file: "pool/maker.go",
		old: `			case status.State != runtime.Running:
				return fmt.Errorf("%w: its main process exited with code %d", ErrUnhealthy, status.ExitCode)
			}
			return nil
`,
		new: `			}
			_ = status
			return nil
`,
	},
	{
		desc: "a container has no baseline", test: "TestCreateOrder",
		file: "pool/maker.go", pkg: "claim",
		old: `			return m.rt.Seal(ctx, c.ID, c.Fence)
`,
		new: `			return nil
`,
	},
	{
		desc: "the baseline is taken before post_create", test: "TestCreateOrder",
		file: "pool/maker.go", pkg: "claim",
		old: `			_, err := m.runner.Run(ctx, hooks.PostCreate, w.Hooks[hooks.PostCreate], subject)
			return err
		}},
		flow.Step{Name: "baseline", Do: func(ctx context.Context) error {
			if !sealed {
				return nil
			}
			return m.rt.Seal(ctx, c.ID, c.Fence)
		}},
`,
		new: `			if sealed {
				if err := m.rt.Seal(ctx, c.ID, c.Fence); err != nil {
					return err
				}
			}
			return nil
		}},
		flow.Step{Name: "baseline", Do: func(ctx context.Context) error {
			_, err := m.runner.Run(ctx, hooks.PostCreate, w.Hooks[hooks.PostCreate], subject)
			return err
		}},
`,
	},
	{
		desc: "a removal whose engine is away skips pre_destroy", test: "TestPreDestroyWaitsForTheEngine",
		file: "pool/maker.go",
		old: `	case errors.Is(err, runtime.ErrUnavailable):
		return err
	case err == nil && m.rt.Protocols()`,
		new: `	case err == nil && m.rt.Protocols()`,
	},
	{
		desc: "a server that stops cuts pre_destroy off", test: "TestPreDestroyIsNotCutOff",
		file: "pool/maker.go",
		old:  `m.runner.Run(context.WithoutCancel(ctx), hooks.PreDestroy, hs, subject)`,
		new:  `m.runner.Run(ctx, hooks.PreDestroy, hs, subject)`,
	},
	{
		desc: "a container that cannot be removed is recorded as gone", test: "TestRetriesOfRemovals",
		file: "pool/maker.go",
		old: `			return m.rt.Destroy(ctx, c.ID)
`,
		new: `			_ = m.rt.Destroy(ctx, c.ID)
			return nil
`,
	},
	{
		desc: "what only its last tenant may have counts as min_idle", test: "TestIdleTimeoutOfKeptContainers",
		file: "pool/shrink.go",
		old: `		case k.Used && reuse != workload.ReuseWipe:
			t.kept += k.N
`,
	},
	{
		desc: "room is made by the container that was used last", test: "TestLeastRecentlyUsedIsReplaced",
		file: "pool/shrink.go",
		old: `return a.ChangedAt.Compare(b.ChangedAt) })
	for _, c := range idle {`,
		new: `return b.ChangedAt.Compare(a.ChangedAt) })
	for _, c := range idle {`,
	},
	{
		desc: "more room is made though what was given up still leaves", test: "TestRoomIsMadeOnce",
		file: "pool/shrink.go",
		old:  `	wanted := missing - max(room, 0) - t.leaving //`,
		new:  `	wanted := missing - max(room, 0) //`,
	},
	{
		desc: "room is made by one container too many", test: "TestRoomIsMadeOnce",
		file: "pool/shrink.go",
		old:  `		return f.evict(ctx, r.ID, wanted, when("the pool`,
		new:  `		return f.evict(ctx, r.ID, wanted+1, when("the pool`,
	},
	{
		desc: "what is kept for tenants is given up though no other can be made", test: "TestKeptWhileNoneCanBeMade",
		file: "pool/shrink.go",
		old:  `	case t.kept > 0 && wanted > 0 && !broken:`,
		new:  `	case t.kept > 0 && wanted > 0:`,
	},
	{
		desc: "a container that the database does not know is removed at once", test: "TestOrphanGraceOverComparisons",
		file: "pool/orphans.go",
		old: `	if time.Since(o.since) < orphanGrace {
		return nil
	}
`,
	},
	{
		desc: "a container with a live record is removed as unknown", test: "TestCrash",
		file: "pool/orphans.go",
		old: `	case c.State != Gone:
		delete`,
		new: `	case c.State == Creating:
		delete`,
	},
	{
		desc: "a container is removed before the log says why", test: "TestRecordedBeforeTheDeed",
		file: "pool/orphans.go",
		old: `	if !o.told {
		if err`,
		new: `	if err := w.rt.Destroy(ctx, s.ID); err != nil {
		return err
	}
	if !o.told {
		if err`,
	},
	{
		desc: "a death is reported again of what is dead already", test: "TestOneDeath",
		file: "pool/watcher.go",
		old:  ` || c.Health == Dead {`,
		new:  ` {`,
	},
	{
		desc: "a container of which the engine says nothing counts as dead", test: "TestNotListed",
		file: "pool/watcher.go",
		old: `			if err != nil && !errors.Is(err, runtime.ErrNotFound) {
				all`,
		new: `			if err != nil && errors.Is(err, ErrFull) {
				all`,
	},
	{
		desc: "containers that fail together count as failures in a row", test: "TestBreakerCountsABurstOnce",
		file: "pool/breaker.go",
		old: `	if now.Before(k.next) {
		k.last, k.lastAt = err.Error(), now
		return *k
	}
`,
	},
	{
		desc: "containers that hold what could not be kept never count against max_size", test: "TestKeptContainersLeaveRoom",
		file: "pool/store.go", pkg: "release",
		old: `return total - min(kept, max) }`,
		new: `return total - min(kept, 10*max) }`,
	},
	{
		desc: "a container is destroyed by force before that is recorded", test: "TestRecordedBeforeTheDeed",
		file: "pool/manager.go",
		old: `	const reason = "an operator destroyed it while it was claimed"
`,
		new: `	const reason = "an operator destroyed it while it was claimed"
	if err := m.rt.Destroy(ctx, c.ID); err != nil {
		return err
	}
`,
	},
	{
		desc: "a check counts that was made while the container changed hands", test: "TestCheckDuringARelease",
		file: "pool/health.go",
		old:  `	if err != nil || !after.ChangedAt.Equal(before.ChangedAt) {`,
		new:  `	if err != nil {`,
	},
	{
		desc: "a removal that fails is tried each second", test: "TestRetriesOfRemovals",
		file: "pool/remover.go",
		old:  `time.Now().Add(min(firstPause<<min(k.failures-1, 16), longestPause))`,
		new:  `time.Now().Add(firstPause)`,
	},
	{
		desc: "a container that was being made by a server that is no more is left", test: "TestHalfMade",
		file: "pool/pool.go",
		old:  `Condemn(id, []State{Creating}, "the server stopped while it was being made"))`,
		new:  `Condemn(id, []State{Gone}, "the server stopped while it was being made"))`,
	},
}
