package main

// unfinishedRows are mutations of what bounds hostile programs behind ports, hostile
// clients of them, and pages of other origins.
var unfinishedRows = []mutation{
	{
		desc: "a program that switches to a protocol without being asked keeps its connection", test: "TestPortProxyUnaskedProtocol",
		file: "api/port_proxy.go",
		old:  `return nil, errors.Join(errProtocol, res.Body.Close())`,
		new:  `return res, nil`,
	},
	{
		desc: "letters of other alphabets make a protocol the client's", test: "TestPortProxyUnaskedProtocol",
		file: "api/port_proxy.go",
		old:  `given != "" && len(asked) == len(given) && `,
		new:  `given != "" && `,
	},
	{
		desc: "what follows a body that was not read is a request", test: "TestPortProxyBrokenBody",
		file: "api/port_proxy.go",
		old:  `w.Header().Set("Connection", "close")`,
	},
	{
		desc: "a client that does not send the rest of its body holds its connection", test: "TestPortProxyEarlyResponse",
		file: "api/port_proxy.go",
		old: `	defer sent.finish(rec)
`,
	},
	{
		desc: "the fields after a program's response are not restricted", test: "TestPortProxyTrailers",
		file: "api/port_proxy.go",
		old: `		res.Body = &restrictedBody{res.Body, res, p.to.restrictTrailer}
`,
	},
	{
		desc: "a program gets a key that was sent with a link", test: "TestPortProxyKeyWithLink",
		file: "api/port_headers.go",
		old:  `by.byKey || len(values) > 1 || slices.ContainsFunc(values, isCredential)`,
		new:  `by.byKey || len(values) > 1 || slices.ContainsFunc(values[:0], isCredential)`,
	},
	{
		desc: "a client without a key holds a connection with a body", test: "TestRefusedBodyIsBounded",
		file: "api/response_recorder.go",
		old: `	rec.endBody()
	p.write(rec)
`,
		new: `	p.write(rec)
`,
	},
	{
		desc: "what a link has begun does not end with it", test: "TestPortLinkEndsConnections",
		file: "api/port_proxy.go",
		old:  `if !by.expires.IsZero() {`,
		new:  `if by.expires.IsZero() && !by.expires.IsZero() {`,
	},
	{
		desc: "an own host opens connections", test: "TestPortProxyWithoutPath",
		file: "api/ports.go",
		old:  `cmp.Or(r.URL.EscapedPath(), "/")`,
		new:  `cmp.Or(r.URL.EscapedPath(), "")`,
	},
	{
		desc: "a page of another origin takes a reader's place", test: "TestAttachingOfOthers",
		file: "api/middleware.go",
		old:  `	"GET " + execPath + "/attach": true, "GET " + execPath + "/{command}/attach": true, "GET " + execPath + "/{command}/output": true,`,
		new:  `	"GET " + execPath + "/attach": true, "GET " + execPath + "/{command}/attach": true,`,
	},
	{
		desc: "a request that is no WebSocket takes a reader's place", test: "TestAttachingOfOthers",
		file: "api/commandsocket.go",
		old:  `if !hasUpgrade(r, "websocket") {`,
		new:  `if !hasUpgrade(r, "websocket") && r.Method == "" {`,
	},
	{
		desc: "a guard does not read the variables that a shell expands first", test: "TestPlacesOfScripts",
		file: "hooks/lint/destructive.go",
		old:  `if startup[name] {`,
		new:  `if startup[name] && value == "" {`,
	},
}
