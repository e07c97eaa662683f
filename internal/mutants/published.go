package main

// published are mutations of what tenants' programs report.
var published = []mutation{
	{
		desc: "what was dropped is lost with a report that changes nothing", test: "TestDroppedSurvivesRepeatedReport",
		file: "publish/publish.go",
		old:  `if err != nil || !res.IsRecorded() {`,
		new:  `if err != nil {`,
	},
	{
		desc: "a tenant publishes an event of Hostler", test: "TestPublishedType",
		file: "activity/published.go",
		old:  `case slices.Contains(resources, subject):`,
		new:  `case slices.Contains(resources[:0], subject):`,
	},
	{
		desc: "a tenant publishes a change of its activity that is not recorded", test: "TestPublishedType",
		file: "activity/published.go",
		old:  `case t == AgentActivityChanged:`,
		new:  `case t == WorkloadApplied:`,
	},
	{
		desc: "a type has capitals", test: "TestPublishedType",
		file: "activity/published.go",
		old:  `(\.[a-z][a-z0-9_-]*)*$`,
		new:  `(\.[a-zA-Z][a-z0-9_-]*)*$`,
	},
	{
		desc: "an event of a tenant is not marked", test: "TestPublish",
		file: "publish/publish.go",
		old:  `e.Untrusted, e.Priority, e.Message = true, &priority,`,
		new:  `e.Untrusted, e.Priority, e.Message = false, &priority,`,
	},
	{
		desc: "an event in a name twice is accepted", test: "TestData",
		file: "publish/data.go",
		old:  `if names[name] {`,
		new:  `if names[name] && name == "" {`,
	},
	{
		desc: "the names of an inner object count for the outer one", test: "TestData",
		file: "publish/data.go",
		old:  `		isName = len(open) > 0 && open[len(open)-1] != nil`,
		new:  `		isName = len(open) == 1 && open[len(open)-1] != nil`,
	},
	{
		desc: "data is nested without a bound", test: "TestData",
		file: "publish/data.go",
		old:  `len(open) > maxDepth {`,
		new:  `len(open) > 1<<20 {`,
	},
	{
		desc: "data is not UTF-8", test: "TestData", pkg: "publish",
		file: "internal/jsonvalue/jsonvalue.go",
		old:  `if !utf8.Valid(value) {`,
		new:  `if !utf8.Valid(nil) {`,
	},
	{
		desc: "characters that control a terminal are stored as they are", test: "TestData",
		file: "publish/data.go",
		old:  `return unicode.IsControl(r) ||`,
		new:  `return r == 0 ||`,
	},
	{
		desc: "a tool has characters that control a terminal", test: "TestActivityIsChecked",
		file: "publish/data.go",
		old:  `|| strings.ContainsFunc(text, isUnsafe):`,
		new:  `|| strings.ContainsFunc(text, unicode.IsDigit):`,
	},
	{
		desc: "JSON of a tenant controls the terminal", test: "TestTerminalIsNotControlled",
		file: "cmd/hostler/print.go",
		old:  `	safe := sanitizeFor(w, isTerminal(w))`,
		new:  `	safe := sanitizeFor(w, false)`,
	},
	{
		desc: "what a tenant has chosen cannot be printed as YAML", test: "TestYAMLHasAnyJSON",
		file: "cmd/hostler/print.go",
		old:  `	node, err := yamlNode(d)`,
		new: `	node := new(yaml.Node)
	err = yaml.Unmarshal(text, node)`,
	},
	{
		desc: "a name of a tenant merges objects of YAML", test: "TestYAMLHasAnyJSON",
		file: "cmd/hostler/print.go",
		old:  `if t == "<<" {`,
		new:  `if t == "" {`,
	},
	{
		desc: "data is larger than it may be", test: "TestData",
		file: "publish/data.go",
		old:  `jsonvalue.Compact(data, MaxData)`,
		new:  `jsonvalue.Compact(data, 2*MaxData)`,
	},
	{
		desc: "the main process of a pending claim publishes", test: "TestPublishingStates",
		file: "publish/publish.go",
		old:  `	if o.FromHook {`,
		new:  `	if !o.FromHook {`,
	},
	{
		desc: "bytes are not limited", test: "TestByteLimit",
		file: "publish/allowance.go",
		old:  `max(events.Sub(now), bytes.Sub(now)) - burst`,
		new:  `events.Sub(now) - burst`,
	},
	{
		desc: "events are not limited", test: "TestLimits",
		file: "publish/allowance.go",
		old:  `max(events.Sub(now), bytes.Sub(now)) - burst`,
		new:  `bytes.Sub(now) - burst`,
	},
	{
		desc: "a clock that is set back blocks a claim", test: "TestClock",
		file: "publish/allowance.go",
		old:  `if t.Before(now) || t.After(now.Add(burst+minSetBack)) {`,
		new:  `if t.Before(now) {`,
	},
	{
		desc: "unused time is saved beyond the burst", test: "TestClock",
		file: "publish/allowance.go",
		old:  `if t.Before(now) || t.After(now.Add(burst+minSetBack)) {`,
		new:  `if t.IsZero() || t.After(now.Add(burst+minSetBack)) {`,
	},
	{
		desc: "claims of a tenant that publish at the same time get a new burst", test: "TestAllowanceOfEarlierTime",
		file: "publish/allowance.go",
		old:  `if t.Before(now) || t.After(now.Add(burst+minSetBack)) {`,
		new:  `if t.Before(now) || t.After(now.Add(burst)) {`,
	},
	{
		desc: "a claim whose events are dropped fills the log", test: "TestFirstDropIsReportedOnce",
		file: "publish/gate.go",
		old:  `dropped == 1 && !c.reported`,
		new:  `dropped == 1`,
	},
	{
		desc: "what is known to be refused costs a transaction", test: "TestFlood",
		file: "publish/gate.go",
		old: `	if c == nil {
		return nil
	}
`,
		new: `	if c == nil || size >= 0 {
		return nil
	}
`,
	},
	{
		desc: "all that is published is written at once", test: "TestManyAtOnce",
		file: "publish/publish.go",
		old:  `const maxAtOnce = 4`,
		new:  `const maxAtOnce = 400`,
	},
	{
		desc: "more of a claim waits than its burst", test: "TestManyAtOnce",
		file: "publish/gate.go",
		old:  `	if g.waiting[id] >= maxWaiting {`,
		new:  `	if g.waiting[id] >= 2*maxWaiting {`,
	},
	{
		desc: "the clock of the database is taken for the server's", test: "TestLimits",
		file: "publish/gate.go",
		old:  `ahead := now.Sub(r.Now)`,
		new:  `ahead := time.Duration(0)`,
	},
	{
		desc: "the gate keeps every claim", test: "TestFlood",
		file: "publish/gate.go",
		old:  `		if c.pending == 0 && c.allowance.isUnused(now) {`,
		new:  `		if c.pending < 0 {`,
	},
	{
		desc: "the number of dropped events is lost with a failure", test: "TestDroppedSurvivesFailure",
		file: "publish/publish.go",
		old:  `		s.gate.addDropped(p.Claim, p.Dropped)`,
		new:  `		s.gate.addDropped(p.Claim, 0)`,
	},
	{
		desc: "dropped events are counted twice", test: "TestByteLimit",
		file: "publish/gate.go",
		old:  `	c.pending = 0`,
		new:  `	c.pending += 0`,
	},
	{
		desc: "every dropped event is logged", test: "TestFlood",
		file: "publish/publish.go",
		old:  `	if err.isFirst {`,
		new:  `	if !err.isFirst {`,
	},
	{
		desc: "a repeated activity is an event", test: "TestSetActivity",
		file: "publish/activity.go",
		old:  `	case !r.changes(c):`,
		new:  `	case !r.changes(c) && c.ID == "":`,
	},
	{
		desc: "a repeated idle counts as use", test: "TestSetActivity",
		file: "publish/activity.go",
		old:  `c.State != claim.Active || !slices.Contains(working, r.Activity) ||`,
		new:  `c.State != claim.Active ||`,
	},
	{
		desc: "a change of the tool of an idle program counts as use", test: "TestSetActivity",
		file: "publish/activity.go",
		old:  `	if c.Activity != r.Activity || slices.Contains(working, r.Activity) {`,
		new:  `	if c.Activity != "" || slices.Contains(working, r.Activity) {`,
	},
	{
		desc: "each repeated report is recorded", test: "TestActivityFlood",
		file: "publish/activity.go",
		old:  `	touchInterval = time.Second`,
		new:  `	touchInterval = 0`,
	},
	{
		desc: "a report that cannot be stored makes a tenant idle", test: "TestActivityNotRecorded",
		file: "publish/activity.go",
		old:  `		_, touchErr := s.o.Touch(ctx, claimID)`,
		new:  `		touchErr := error(nil)`,
	},
	{
		desc: "a claim that has ended publishes", test: "TestSQLite",
		file: "store/publications.go",
		old:  `	if !slices.Contains(p.States, c.State) || c.Container == "" {`,
		new:  `	if !slices.Contains(append(p.States, c.State), c.State) || c.Container == "" {`,
	},
	{
		desc: "an event hook triggers itself by publishing", test: "TestSQLite",
		file: "store/publications.go",
		old:  `return int(min(n, 1)), translateError(err)`,
		new:  `return int(min(n, 0)), translateError(err)`,
	},
	{
		desc: "a request that is sent again publishes again", test: "TestSQLite",
		file: "store/publications.go",
		old:  `	if e.Request = p.ID; p.ID != "" {`,
		new:  `	if e.Request = ""; p.ID != "" {`,
	},
	{
		desc: "a tenant has a burst for each of its claims", test: "TestSQLite",
		file: "store/publications.go",
		old:  `		r.ByTenant, err = takeAllowance(t, "tenant", c.Tenant,`,
		new:  `		r.ByTenant, err = takeAllowance(t, "tenant", c.ID,`,
	},
	{
		desc: "an event is recorded without its activity", test: "TestSQLite",
		file: "store/publications.go",
		old:  `	if c.Activity != before.Activity || c.ActivityTool != before.ActivityTool {`,
		new:  `	if c.Activity == before.Activity {`,
	},
	{
		desc: "what was dropped is not recorded", test: "TestSQLite",
		file: "store/publications.go",
		old:  `	a.Dropped += dropped`,
		new:  `	a.Dropped += dropped * 0`,
	},
	{
		desc: "retention removes published events that a cursor has not passed", test: "TestSQLite",
		file: "store/prunepublished.go",
		old:  `return p.removeAll(ctx, p.passed, toNanos(before), publishedByAll)`,
		new:  `return p.removeAll(ctx, math.MaxInt64, toNanos(before), publishedByAll)`,
	},
	{
		desc: "retention removes what is still to be delivered", test: "TestSQLite",
		file: "store/prunepublished.go",
		old:  `return e.time < before && !p.needed[e.seq] &&`,
		new:  `return e.time < before &&`,
	},
	{
		desc: "retention removes young events", test: "TestSQLite",
		file: "store/prunepublished.go",
		old:  `return e.time < before && !p.needed[e.seq] &&`,
		new:  `return !p.needed[e.seq] &&`,
	},
	{
		desc: "one event too many of a claim is removed", test: "TestSQLite",
		file: "store/prunepublished.go",
		old:  `min(p.passed, kept-1)`,
		new:  `min(p.passed, kept)`,
	},
	{
		desc: "removed events stay in memory", test: "TestSQLite",
		file: "store/prunepublished.go",
		old:  `	p.db.buffer.remove(seqs)`,
		new:  `	p.db.buffer.remove(seqs[:0])`,
	},
	{
		desc: "a gap in the log ends what is in memory", test: "TestBufferWithGaps",
		file: "store/eventbuffer.go",
		old:  `		all = append(all, activity.Event{Seq: seq})`,
		new:  `		continue`,
	},
	{
		desc: "a gap in the log counts as a failover", test: "TestBufferWithGaps",
		file: "store/eventbuffer.go",
		old: `	if isRemoved(have) || isRemoved(e) {
		return false
	}
`,
	},
	{
		desc: "the event after a removed one is taken for it", test: "TestSQLite",
		file: "store/deliverylists.go",
		old:  `len(p.Items) == 1 && p.Items[0].Seq == seq {`,
		new:  `len(p.Items) == 1 {`,
	},
	{
		desc: "a tenant that floods fills the queue of all", test: "TestFloodOfTenant", pkg: "delivery",
		file: "store/deliverylists.go",
		old:  `{{fullTenants, perTenant}, {fullQueues, perWorkload}}`,
		new:  `{{fullQueues, perWorkload}}`,
	},
	{
		desc: "events of tenants are as important as those of Hostler", test: "TestPublishedEvents",
		file: "delivery/match.go",
		old:  `Tenant: e.Tenant, Priority: priorityOf(e),`,
		new:  `Tenant: e.Tenant, Priority: PriorityOwn,`,
	},
	{
		desc: "receivers cannot see that an event is untrusted", test: "TestPublishedEvents",
		file: "delivery/attempt.go",
		old:  `Data: e.Data, Untrusted: e.Untrusted,`,
		new:  `Data: e.Data,`,
	},
	{
		desc: "a tenant supplies a trusted variable", test: "TestEventVariablesAreTrusted",
		file: "hooks/runner/event.go",
		old: `		addPublished(all, e.Data)
		return all
`,
		new: `		addPublished(all, e.Data)
		e.Type = "claim.released"
`,
	},
	{
		desc: "a tenant chooses labels of metrics", test: "TestRunsAreCountedAndLogged",
		file: "cmd/hostler/metrics_linux.go",
		old:  `activity.IsPublished(t) {`,
		new:  `activity.IsPublished(t) && t == "" {`,
	},
	{
		desc: "the data of a tenant reaches the terminal", test: "TestOutputIsSanitized",
		file: "cmd/hostler/events.go",
		old:  `oneLine(string(e.Data))`,
		new:  `string(e.Data)`,
	},
	{
		desc: "the last activity is not in the event of the release", test: "TestReleaseHasLastActivity",
		file: "release/steps.go",
		old:  `		released.Activity = c.Activity`,
		new:  `		released.Activity = op.claim.Activity`,
	},
}
