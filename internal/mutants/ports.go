package main

// portRows are mutations of connections to ports of containers, and of what serves
// them.
var portRows = []mutation{
	{
		desc: "a connection of an earlier claim begins", test: "TestPortFences",
		file: "cmd/hostler-shim/ports.go",
		old: `	if err := p.admit(fence); err != nil {
		return nil, err
	}
`,
	},
	{
		desc: "connections are closed without a record of the fence", test: "TestPortFences",
		file: "cmd/hostler-shim/ports.go",
		old: `	if err := p.admit(fence); err != nil {
		return err
	}
`,
	},
	{
		desc: "the connections of the current claim are closed with those of earlier ones", test: "TestPortFences",
		file: "cmd/hostler-shim/ports.go",
		old:  `return c.fence < fence`,
		new:  `return c.fence <= fence`,
	},
	{
		desc: "connections have no bound in a container", test: "TestPortLimit",
		file: "cmd/hostler-shim/ports.go",
		old:  `len(p.open) >= runtime.MaxPortConnections`,
		new:  `len(p.open) > runtime.MaxPortConnections`,
	},
	{
		desc: "a connection that fails looks as if it had ended", test: "TestDialPort",
		file: "cmd/hostler-shim/port_socket.go",
		old:  `&unix.Linger{Onoff: 1}`,
		new:  `&unix.Linger{}`,
	},
	{
		desc: "a connection passes no gate", test: "TestDialRefused",
		file: "access/ports.go",
		old:  `func() error { return s.o.Gates.Request(ctx, g, use) }`,
		new:  `func() error { return nil }`,
	},
	{
		desc: "a request passes no gate", test: "TestPortProxyGate", pkg: "api",
		file: "access/ports.go",
		old:  `	if err := s.o.Gates.Request(ctx, g, use); err != nil {`,
		new:  `	if err := error(nil); err != nil {`,
	},
	{
		desc: "a connection that fails keeps its place", test: "TestDialRefused",
		file: "access/ports.go",
		old: `	end()
	return nil, asUsed(err)`,
		new: `	return nil, asUsed(err)`,
	},
	{
		desc: "a link opens other ports", test: "TestPortLinks",
		file: "api/port_links.go",
		old:  `fmt.Fprintf(mac, "%s\n%d\n%d", claim, port, expires)`,
		new:  `fmt.Fprintf(mac, "%s\n%d\n%d", claim, 0, expires)`,
	},
	{
		desc: "a program gets the API key", test: "TestPortProxyCredentials",
		file: "api/port_headers.go",
		old: `		h.Del("Cookie")
		h.Del("Authorization")
		h.Del("X-Api-Key")
`,
		new: `		h.Del("Cookie")
		h.Del("X-Api-Key")
`,
	},
	{
		desc: "a redirect leaves the port by escaped dots", test: "TestPortProxyRedirects",
		file: "api/port_headers.go",
		old:  `segment == "." || segment == ".."`,
		new:  `segment == "."`,
	},
	{
		desc: "interim responses of programs are passed on", test: "TestPortProxyRestrictsResponses",
		file: "api/port_proxy.go",
		old:  `p.a.portTransport.RoundTrip(r.WithContext(p.ctx))`,
		new:  `p.a.portTransport.RoundTrip(r)`,
	},
	{
		desc: "pages of other origins open WebSockets", test: "TestPortProxyRestrictsResponses",
		file: "api/ports.go",
		old:  `r.Header.Get("Upgrade") != "" && isOtherOrigin(r)`,
		new:  `false`,
	},
}
