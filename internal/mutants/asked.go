package main

// askedTwice are mutations of what must not be done twice, for another, or too late,
// of what programs in containers request.
var askedTwice = []mutation{
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
		old:  `if err == nil && res.IsRecorded() && s.o`,
		new:  `if err == nil && res.Event != nil && s.o`,
	},
	{
		desc: "a request that was received before the end of a hook is handled after it", test: "TestNoHandlerBeginsAfterTheEnd",
		file: "runtime/shim/serve.go",
		old:  `case a.ended: //`,
		new:  `case a.ended && false: //`,
	},
}
