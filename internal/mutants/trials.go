package main

// trials are mutations of hostler try, and of what a program learns of its claim.
var trials = []mutation{
	{
		desc: "a claim that does not wait takes a place in the queue", test: "TestUnavailabilityReasons",
		file: "claim/reserve.go",
		old:  "	if a.request.NoWait {",
		new:  "	if a.request.NoWait && false {",
	},
	{
		desc: "a wait of 0 is the default", test: "TestWaitOfClaim",
		file: "api/claims.go",
		old:  "NoWait: in.Body.Wait != nil && wait == 0,",
		new:  "",
	},
	{
		desc: "a touch of a claim that is over succeeds", test: "TestTouchOfEndedClaim",
		file: "api/claims.go",
		old:  "	if err == nil && c.State != claim.Active {",
		new:  "	if err == nil && c.State == claim.Pending {",
	},
	{
		desc: "a client that does not wait sends nothing of it", test: "TestWaitOfClaimRequest",
		file: "client/calls.go",
		old:  `		r.Wait = "0s"`,
		new:  `		r.Wait = ""`,
	},
	{
		desc: "the directory of a trial that runs is taken for a killed one's", test: "TestTrialDirectory",
		file: "cmd/hostler/trialdir_linux.go",
		old:  "unix.LOCK_EX|unix.LOCK_NB",
		new:  "unix.LOCK_SH|unix.LOCK_NB",
	},
	{
		desc: "a directory that was replaced counts as locked", test: "TestTrialDirectory",
		file: "cmd/hostler/trialdir_linux.go",
		old:  "err != nil || !os.SameFile(opened, now)",
		new:  "err != nil && !os.SameFile(opened, now)",
	},
	{
		desc: "other users read the key of a private server", test: "TestTrialConfiguration",
		file: "cmd/hostler/private_linux.go",
		old:  "0o600",
		new:  "0o644",
	},
	{
		desc: "a trial uses the sink of its file", test: "TestOwnDirectory",
		file: "snapshot/sink_opener.go",
		old:  "	if s.OwnDirectory {",
		new:  "	if s.OwnDirectory && false {",
	},
	{
		desc: "lines of a log are shown twice", test: "TestLogFollower",
		file: "cmd/hostler/logs_follow.go",
		old:  "		return text[len(before):], noGap",
		new:  "		return text, noGap",
	},
	{
		desc: "a log that begins again counts as one with lost lines", test: "TestLogFollower",
		file: "cmd/hostler/logs_follow.go",
		old:  "		return text, newLog",
		new:  "		return text, lostText",
	},
	{
		desc: "a hook that may fail fails the trial", test: "TestTrialHooks",
		file: "cmd/hostler/triallog_linux.go",
		old:  "isOver && !t.mayFail(*end)",
		new:  "isOver",
	},
}
