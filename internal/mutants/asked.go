package main

// askedTwice are mutations of what must not be done twice, for another, or too late,
// of what programs in containers request.
var askedTwice = []mutation{
	{
		desc: "a request that was received before the end of a hook is handled after it", test: "TestNoHandlerBeginsAfterTheEnd",
		file: "runtime/shim/serve.go",
		old:  `case a.ended: //`,
		new:  `case a.ended && false: //`,
	},
}
