package main

// askedTwice are mutations of what must not be done twice, for another, or too late,
// of what programs in containers request.
var askedTwice = []mutation{
	{
		desc: "what an earlier flow serves replaces what a later one does", test: "TestServerOfLaterFlowIsKept",
		file: "runtime/shim/serve.go",
		old:  `return cmp.Compare(a.fence, b.fence)`,
		new:  `return cmp.Compare(b.fence, a.fence)`,
	},
	{
		desc: "a request that is formatted otherwise is another one", test: "TestRepeatedRequestIsFormattedOtherwise",
		file: "inside/once.go",
		old:  `json.Compact(&body, r.Body) == nil`,
		new:  `json.Compact(&body, r.Body) != nil`,
	},
	{
		desc: "a tenant sends more requests if its main process is restarted again and again", test: "TestAskLimits",
		file: "cmd/hostler-shim/asks.go",
		old: `	a.open = new(openAsks)
}`,
		new: `	a.open = new(openAsks)
	a.rate.Reset()
}`,
	},
	{
		desc: "a tenant sends more requests on another connection", test: "TestServeRate",
		file: "runtime/shim/ask.go",
		old:  `	if fence > b.fence {`,
		new:  `	if fence >= b.fence {`,
	},
	{
		desc: "the server counts for a hook what others have asked for", test: "TestServeRateOfClaims",
		file: "runtime/shim/serve.go",
		old: `	s.asked.Begin(fence)
	a, stop`,
		new: `	a, stop`,
	},
	{
		desc: "an event counts again with a repeated request", test: "TestRepeatedEventCountsOnce",
		file: "publish/publish.go",
		old:  `if err == nil && res.IsRecorded() {`,
		new:  `if err == nil && res.Event != nil {`,
	},
	{
		desc: "a process passes for an earlier one with its PID", test: "TestPeerIsTheProcessThatConnected",
		file: "cmd/hostler-shim/ask_peer.go",
		old: `err == nil && !p.isAlive() {
		err = errExited
	}
	return from`,
		new: `err != nil && !p.isAlive() {
		err = errExited
	}
	return from`,
	},
	{
		desc: "a process passes for an earlier one with its PID on an old kernel", test: "TestPeerIsTheProcessThatConnected",
		file: "cmd/hostler-shim/ask_peer.go",
		old:  `		return p.id.IsAlive()`,
		new:  `		return true`,
	},
	{
		desc: "a process is not held while it asks", test: "TestPeerIsTheProcessThatConnected",
		file: "cmd/hostler-shim/ask_peer.go",
		old:  `		p.pidfd = os.NewFile(uintptr(fd), "peer")`,
		new:  `		_ = os.NewFile(uintptr(fd), "peer")`,
	},
	{
		desc: "a process that cannot be identified asks", test: "TestUnidentifiedPeerIsRefused",
		file: "cmd/hostler-shim/ask_peer.go",
		old:  `if err != nil && !errors.Is(err, unix.ENOPROTOOPT) {`,
		new:  `if err != nil && false {`,
	},
	{
		desc: "a process with the PID of an ancestor that has exited passes for it", test: "TestAncestorsAreReadWhileTheyLive",
		file: "cmd/hostler-shim/ask_listen.go",
		old:  ` && now.Parent == parent.PID`,
		new:  ` && parent.PID > 0`,
	},
	{
		desc: "a tenant's main process uses up the requests of a hook at pre_release", test: "TestRefusedAsksDoNotCount",
		file: "cmd/hostler-shim/asks.go",
		old:  `	case by.fence == shim.NoFence || by`,
		new: `	case !a.rate.Take(time.Now()):
		return refuse(runtime.ProblemBusy, "the container has sent too many requests")
	case by.fence == shim.NoFence || by`,
	},
	{
		desc: "the ancestors of a process are those of another one", test: "TestOriginIsOfRealParents",
		file: "cmd/hostler-shim/ask_listen.go",
		old:  `child.PID > 0 && !isChildOf(child, p) {`,
		new:  `child.PID > 0 && false {`,
	},
	{
		desc: "a process that asks counts as exited because another one has", test: "TestSignalIsNoExit",
		file: "cmd/hostler-shim/ask_peer.go",
		old:  `	for errors.Is(err, unix.EINTR) { // a signal`,
		new:  `	for false { // a signal`,
	},
	{
		desc: "a deletion that is requested twice at once fails", test: "TestPostgres",
		file: "store/postgreserrors.go",
		old:  `	"memory_requests_pkey": errSerialization,`,
	},
	{
		desc: "a request with the ID of another one gets its response", test: "TestIDOfAnotherRequest",
		file: "inside/once.go",
		old:  `if a.content != content {`,
		new:  `if false {`,
	},
	{
		desc: "a request with the ID and the body of another one gets its response", test: "TestIDOfAnotherRequest",
		file: "inside/once.go",
		old:  `[]byte(r.Name+"\x00")`,
		new:  `[]byte("\x00")`,
	},
	{
		desc: "a change of memory has the result of another one with its ID", test: "TestSQLite",
		file: "store/memory.go",
		old:  `if earlier.Digest != "" && earlier.Digest != c.Digest() {`,
		new:  `if false {`,
	},
	{
		desc: "a deletion has the result of a put of null with its ID", test: "TestDigest",
		file: "memory/service.go",
		old:  `c.Value == nil, c.Value,`,
		new:  `false, c.Value,`,
	},
	{
		desc: "an event with the ID of another one is not published, and seems to be", test: "TestSQLite",
		file: "store/publications.go",
		old:  `if !publish.IsRepeated(earlier, e) {`,
		new:  `if false {`,
	},
	{
		desc: "a repeated activity is refused when another one was reported since", test: "TestIsRepeated",
		file: "publish/repeated.go",
		old:  `	d.PreviousActivity = ""`,
	},
	{
		desc: "a wait with the ID of another request is that of the other one", test: "TestSQLite",
		file: "store/waitrequests.go",
		old:  `if err == nil && digest != w.Digest() {`,
		new:  `if false {`,
	},
	{
		desc: "a request to wait is refused for an ID that the container accepts", test: "TestRequestIDs",
		file: "wait/request.go",
		old:  `r.ID != "" && !runtime.IsRequestID(r.ID) &&`,
		new:  `r.ID != "" && len(r.ID) < 2*runtime.MaxRequestID &&`,
	},
	{
		desc: "a request's ID has any characters", test: "TestRuntimeContract",
		file: "runtime/requests.go", pkg: "runtime/fake",
		old: ` && strings.Trim(text, characters) == ""`,
		new: ` && strings.Trim(text, characters) != text`,
	},
	{
		desc: "a request that joined a wait begins another one after its end", test: "TestSQLite",
		file: "store/waitrequests.go",
		old:  `	if w.Request == "" {`,
		new:  `	if true {`,
	},
	{
		desc: "any number of requests join a wait", test: "TestSQLite",
		file: "store/waitrequests.go",
		old:  `if err == nil && joined >= wait.MaxJoined {`,
		new:  `if joined < 0 {`,
	},
	{
		desc: "waits are joined at any rate", test: "TestSQLite",
		file: "store/waitrequests.go",
		old:  `		err = checkWaitRate(t, w.Claim, now)`,
		new:  `		_, _ = checkWaitRate, now`,
	},
	{
		desc: "the requests that join waits are not counted", test: "TestSQLite",
		file: "store/waitrequests.go",
		old:  `FROM wait_requests WHERE claim = $1 AND created_at BETWEEN $2 AND $3)`,
		new:  `FROM wait_requests WHERE claim = $1 AND created_at < 0)`,
	},
	{
		desc: "the requests that joined a wait stay without it", test: "TestLongWaitIsKept",
		file: "store/migrations/00028_wait_requests.sql", pkg: "store",
		old: ` REFERENCES waits (id) ON DELETE CASCADE,`,
		new: `,`,
	},
	{
		desc: "a long wait is removed as soon as it has ended", test: "TestLongWaitIsKept",
		file: "store/waits.go",
		old: `ended_at > 0 AND ended_at <
		(SELECT ended_at FROM waits WHERE claim = $1 AND ended_at > 0 ORDER BY ended_at DESC`,
		new: `ended_at > 0 AND id <
		(SELECT id FROM waits WHERE claim = $1 AND ended_at > 0 ORDER BY id DESC`,
	},
	{
		desc: "a request that was received before the end of a hook is handled after it", test: "TestNoHandlerBeginsAfterTheEnd",
		file: "runtime/shim/serve.go",
		old:  `case a.ended: //`,
		new:  `case a.ended && false: //`,
	},
	{
		desc: "a repeated report of an activity has the answer of a later one", test: "TestRepeatedActivity",
		file: "publish/activity.go",
		old:  `		case earlier != nil:`,
		new:  `		case earlier != nil && false:`,
	},
	{
		desc: "a report of an activity that is repeated at once has the answer of a later one", test: "TestRepeatedActivity",
		file: "publish/activity.go",
		old:  `	if res.Event == nil {`,
		new:  `	if !res.IsRecorded() {`,
	},
	{
		desc: "a repeated request is refused because of the limits", test: "TestRepeatedRequestIsNotLimited",
		file: "publish/publish.go",
		old:  `time.Now(), p.ID == "")`,
		new:  `time.Now(), true)`,
	},
	{
		desc: "a repeated report that would change nothing is not recognised", test: "TestSQLite",
		file: "store/publications.go",
		old:  `	if e.Publication = p.ID; p.ID != "" {`,
		new:  `	if e.Publication = p.ID; p.ID != "" && isChanged {`,
	},
	{
		desc: "a request is not recognised after the oldest events of its claim were removed", test: "TestSQLite",
		file: "store/prunepublished.go",
		old:  `isRepeatable := e.hasRequest &&`,
		new:  `isRepeatable := !e.hasRequest &&`,
	},
	{
		desc: "a request is not recognised after old events were removed", test: "TestSQLite",
		file: "store/prune.go",
		old:  `	if first.Valid {`,
		new:  `	if false {`,
	},
	{
		desc: "what requests have published is never removed", test: "TestOldRequestsAreRemoved",
		file: "store/prunepublished.go",
		old:  `Add(-publish.RequestRetention)`,
		new:  `Add(-10 * publish.RequestRetention)`,
	},
	{
		desc: "a report that is repeated after the end of its claim is refused", test: "TestRepeatedActivityAfterRelease",
		file: "publish/activity.go",
		old: `		case earlier != nil:
			return r.changedBy(*earlier), nil
		case !isActive:
			return ActivityResponse{}, fmt.Errorf("claim %s is %s: %w", c.ID, c.State, claim.ErrNotActive)
`,
		new: `		case !isActive:
			return ActivityResponse{}, fmt.Errorf("claim %s is %s: %w", c.ID, c.State, claim.ErrNotActive)
		case earlier != nil:
			return r.changedBy(*earlier), nil
`,
	},
	{
		desc: "an event of a clock that was ahead is kept until then", test: "TestRetentionAfterClockWasSetBack",
		file: "store/prunepublished.go",
		old:  `time BETWEEN $3 AND $4`,
		new:  `time >= $3 AND $4 <> 0`,
	},
	{
		desc: "a surplus event of a clock that was ahead is kept until then", test: "TestRetentionAfterClockWasSetBack",
		file: "store/prunepublished.go",
		old:  ` && e.time <= p.repeatableUntil`,
		new:  ``,
	},
	{
		desc: "a clock that was set back has a claim refused waits", test: "TestWaitRateAfterClockWasSetBack",
		file: "store/waitrequests.go",
		old:  `FROM waits WHERE claim = $1 AND created_at BETWEEN $2 AND $3`,
		new:  `FROM waits WHERE claim = $1 AND created_at >= $2`,
	},
	{
		desc: "a repeated request to wait is refused by a server that permits shorter timeouts", test: "TestRepeatedAfterLowerMaxTimeout",
		file: "wait/request.go",
		old:  `	if r.ID == "" {`,
		new:  `	if w.Refused != nil {`,
	},
	{
		desc: "a wait is as long as its request has it", test: "TestRepeatedAfterLowerMaxTimeout",
		file: "wait/request.go",
		old:  ` || r.Timeout > maxTimeout {`,
		new:  ` {`,
	},
	{
		desc: "a refused request joins a wait", test: "TestSQLite",
		file: "store/waits.go",
		old:  `	if w.Refused != nil {`,
		new:  `	if w.Refused != nil && w.Name == "" {`,
	},
	{
		desc: "a request in progress is forgotten because of many others", test: "TestRequestInProgressIsKept",
		file: "inside/once.go",
		old:  `slices.IndexFunc(kept, (*attempt).isDone)`,
		new:  `0`,
	},
	{
		desc: "a repeated request of a hook is done twice", test: "TestRequestOfHookIsDoneOnce",
		file: "inside/service.go",
		old:  `	if row.Once {`,
		new:  `	if row.Once && by.claim == "" {`,
	},
	{
		desc: "a repeated request is refused because its first one was made after it was looked up", test: "TestRepeatedWhileTheFirstIsMade",
		file: "publish/publish.go",
		old:  `	if mayBeRepeated {`,
		new:  `	if mayBeRepeated || p.ID != "" {`,
	},
	{
		desc: "each request is looked up", test: "TestAdmittedRequestIsNotLookedUp",
		file: "publish/publish.go",
		old:  `	if mayBeRepeated {`,
		new:  `	if mayBeRepeated || p.ID != "" {`,
	},
	{
		desc: "each request of a flood that is refused reads the database", test: "TestRefusedRequestsReadLittle",
		file: "publish/gate.go",
		old:  `return c.lookups.Sub(now) - burst`,
		new:  `return 0`,
	},
	{
		desc: "a request that may be a repeated one is counted as dropped", test: "TestRepeatedRequestIsNotLimited",
		file: "publish/gate.go",
		old: `	case !isNew:
		return nil, true
`,
		new: `	case !isNew:
		return c.drop(id, of, wait), true
`,
	},
	{
		desc: "a request whose sender has left is counted as dropped", test: "TestRefusedRequestsReadLittle",
		file: "publish/publish.go",
		old:  `		if err != nil || earlier != nil {`,
		new:  `		if earlier != nil {`,
	},
	{
		desc: "the dropped events of a claim whose end was missed are kept", test: "TestMissedEndsOfClaims",
		file: "publish/publish.go",
		old:  `			s.ended(id, tenant)`,
		new:  `			_ = tenant`,
	},
	{
		desc: "a claim whose end was missed is kept if a change of it was being made", test: "TestMissedEndsOfClaims",
		file: "publish/gate.go",
		old:  `		if c.waiting > 0 || c.pending > 0 ||`,
		new:  `		if c.pending > 0 ||`,
	},
	{
		desc: "what was recorded as dropped is not logged when the end of the claim was missed", test: "TestMissedEndsOfClaims",
		file: "publish/gate.go",
		old:  ` || c.allowance.Dropped > 0 {`,
		new:  ` {`,
	},
	{
		desc: "the dropped events of a live claim are forgotten", test: "TestMissedEndsOfClaims",
		file: "publish/publish.go",
		old:  `err == nil && !c.State.IsLive():`,
		new:  `err == nil && c.ID == id:`,
	},
	{
		desc: "a claim that does not exist any more keeps what was dropped", test: "TestMissedEndsOfClaims",
		file: "publish/publish.go",
		old:  `errors.Is(err, claim.ErrClaimNotFound), err == nil`,
		new:  `err == nil`,
	},
	{
		desc: "a repeated event of a claim that has ended is refused", test: "TestSQLite",
		file: "store/publications.go",
		old:  `	case r.Event != nil:`,
		new:  `	case r.Event != nil && before.State != claim.Released:`,
	},
}
