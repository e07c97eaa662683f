package main

// hookRequests are mutations of packages hooks/request and hooks/builtin.
var hookRequests = []mutation{
	{
		desc: "requests are sent to any address", test: "TestWays",
		file: "hooks/request/transport.go",
		old:  `			return a.check(ctx, host, dialed.Addr(), listed)`,
		new: `			_, _ = host, dialed
			return nil`,
	},
	{
		desc: "a file may set the headers of a connection", test: "TestParseRejectsHooks",
		file: "workload/hook_values.go",
		old:  `		case !hooks.IsHeaderAllowed(lower):`,
		new:  `		case lower == "":`,
	},
	{
		desc: "a key may be sent as a header of the connection", test: "TestParseRejectsHooks",
		file: "workload/check_request.go",
		old:  ` && !hooks.IsHeaderAllowed(a.Header) {`,
		new:  ` && a.Header == "" {`,
	},
	{
		desc: "the header of an event hook's run does not name the event", test: "TestIdentifyingHeaders",
		file: "hooks/request/build.go",
		old:  `cmp.Or(string(a.Point), a.Event), a.Run`,
		new:  `cmp.Or(string(a.Point), ""), a.Run`,
	},
	{
		desc: "a name stands for the responses of several hooks", test: "TestParseRejectsHooks",
		file: "workload/check_hooks.go",
		old: `	d.checkResponses(h, scope)
`,
	},
	{
		desc: "an IPv4-mapped address is not judged as IPv4", test: "TestAddressRules",
		file: "hooks/request/address.go",
		old: `	addr = addr.WithZone("").Unmap()
	embedded`,
		new: `	addr = addr.WithZone("")
	embedded`,
	},
	{
		desc: "allowed addresses are not denied", test: "TestAddressRules",
		file: "hooks/request/address.go",
		old:  `	if a.deny.hasHost(host) || a.deny.hasAny(addr, embedded) {`,
		new:  `	if !a.allow.hasAny(addr) && (a.deny.hasHost(host) || a.deny.hasAny(addr, embedded)) {`,
	},
	{
		desc: "a denied host is reached by its name", test: "TestWays",
		file: "hooks/request/address.go",
		old:  `	if a.deny.hasHost(host) || a.deny`,
		new:  `	if a.deny`,
	},
	{
		desc: "what an allowed NAT64 address stands for is not judged", test: "TestAddressRules",
		file: "hooks/request/address.go",
		old:  `	if embedded.IsValid() && !a.allow`,
		new:  `	if !embedded.IsValid() && !a.allow`,
	},
	{
		desc: "requests reach the server's interfaces", test: "TestWays",
		file: "hooks/request/address.go",
		old: `p.Addr().WithZone("").Unmap() == addr {
			return true, nil`,
		new: `p.Addr().WithZone("").Unmap() == addr {
			return false, nil`,
	},
	{
		desc: "requests reach the address of the server's own name", test: "TestWays",
		file: "hooks/request/address.go",
		old:  `	for _, name := range a.own.hosts {`,
		new:  `	for _, name := range a.own.hosts[:0] {`,
	},
	{
		desc: "everything is permitted while the server's addresses are unknown", test: "TestUnknownOwnAddresses",
		file: "hooks/request/address.go",
		old:  `		return fmt.Errorf("list the server's own addresses: %w", err)`,
		new:  `		return nil`,
	},
	{
		desc: "requests reach the metadata service of Akamai", test: "TestWays",
		file: "hooks/request/address.go",
		old:  `"fd00:a9fe:a9fe::1/128"`,
		new:  `"fd00:a9fe:a9fe::2/128"`,
	},
	{
		desc: "requests reach metadata services in private networks", test: "TestWays",
		file: "hooks/request/address.go",
		old:  `		return fmt.Errorf("%w: %s (%s) is a metadata service", ErrRefused, addr, host)`,
		new:  `		return nil`,
	},
	{
		desc: "a domain without a dot in front of it matches", test: "TestAddressRules",
		file: "hooks/request/address.go",
		old:  `strings.CutPrefix(h, "*")`,
		new:  `strings.CutPrefix(h, "*.")`,
	},
	{
		desc: "redirects are followed", test: "TestStatus",
		file: "hooks/request/request.go",
		old:  `transport.RoundTrip(m.httpRequest(ctx))`,
		new:  `(&http.Client{Transport: transport}).Do(m.httpRequest(ctx))`,
	},
	{
		desc: "the proxy of the environment is used", test: "TestProxyIsIgnored",
		file: "hooks/request/transport.go",
		old:  `		Proxy: nil,`,
		new:  `		Proxy: http.ProxyFromEnvironment,`,
	},
	{
		desc: "servers are not verified", test: "TestTLS",
		file: "hooks/request/transport.go",
		old:  `RootCAs: roots}`,
		new:  `RootCAs: roots, InsecureSkipVerify: true}`,
	},
	{
		desc: "HTTP/2 is spoken", test: "TestTLS",
		file: "hooks/request/transport.go",
		old:  `	protocols.SetHTTP1(true)`,
		new:  `	protocols.SetHTTP2(true)`,
	},
	{
		desc: "the body of a response has no limit", test: "TestBadReceivers",
		file: "hooks/request/response.go",
		old:  `io.LimitReader(resp.Body, maxResponseBytes+1)`,
		new:  `io.LimitReader(resp.Body, 1<<40)`,
	},
	{
		desc: "a body that is not needed delays the result", test: "TestBadReceivers",
		file: "hooks/request/response.go",
		old: `	if !needed {
		timer`,
		new: `	if needed {
		timer`,
	},
	{
		desc: "half a response is captured", test: "TestCapture",
		file: "hooks/request/response.go",
		old:  `	if b.cut {`,
		new:  `	if false {`,
	},
	{
		desc: "a captured value has no limit", test: "TestCapture",
		file: "hooks/request/response.go",
		old:  `	case len(text) > maxCaptured:`,
		new:  `	case len(text) > maxResponseBytes:`,
	},
	{
		desc: "secrets are sent in plain text", test: "TestSecretsInPlainText",
		file: "hooks/request/request.go",
		old:  `	if m.hasSecrets {`,
		new:  `	if false {`,
	},
	{
		desc: "a GET is sent twice in an attempt", test: "TestNotSentTwice",
		file: "hooks/request/transport.go",
		old: `	once.DisableKeepAlives = true
`,
	},
	{
		desc: "a request is sent twice in an attempt", test: "TestNotSentTwice",
		file: "hooks/request/build.go",
		old:  `	m.header[strings.ToLower(hooks.HeaderKey)] = []string{a.Run}`,
		new:  `	m.header.Set(hooks.HeaderKey, a.Run)`,
	},
	{
		desc: "a file sets the Host header", pkg: "hooks/request", test: "TestIdentifyingHeaders",
		file: "hooks/header.go",
		old:  `"host", `,
	},
	{
		desc: "the signature does not cover the timestamp", test: "TestSignature",
		file: "hooks/request/sign.go",
		old:  `fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, m.body)`,
		new:  `fmt.Fprintf(mac, "%s.%s", id, m.body)`,
	},
	{
		desc: "the signature has the id of the hook's name", test: "TestSignature",
		file: "hooks/request/build.go",
		old:  `.Value, a.Run, time.Now())`,
		new:  `.Value, a.Hook, time.Now())`,
	},
	{
		desc: "a 4xx status is retried", test: "TestStatus",
		file: "hooks/request/request.go",
		old:  `	return r.Status >= http.StatusInternalServerError`,
		new:  `	return r.Status >= http.StatusBadRequest`,
	},
	{
		desc: "a refused address is retried", test: "TestWays",
		file: "hooks/request/request.go",
		old:  `errors.Is(err, errInvalid), errors.Is(err, ErrRefused):`,
		new:  `errors.Is(err, errInvalid):`,
	},
	{
		desc: "a receiver delays the next attempt without a limit", test: "TestRetryAfter",
		file: "hooks/request/response.go",
		old:  `		return min(max(date.Sub(now), 0), MaxRetryAfter)`,
		new:  `		return max(date.Sub(now), 0)`,
	},
	{
		desc: "a failed response ends the point as a success", test: "TestStopHeader",
		file: "hooks/request/response.go",
		old: `	res := runner.Result{State: hooks.Succeeded, Detail: hooks.Detail{Status: resp.StatusCode}}
`,
		new: `	res := runner.Result{State: hooks.Succeeded, Detail: hooks.Detail{Status: resp.StatusCode}}
	res.Stop = resp.Header.Get(hooks.HeaderStop) == "1"
`,
	},
	{
		desc: "a token is used until it expires", test: "TestTokenCache",
		file: "hooks/request/tokens.go",
		old:  `	if remaining > renewBefore {`,
		new:  `	if remaining > 0 {`,
	},
	{
		desc: "a failed renewal fails the attempt", test: "TestTokenCache",
		file: "hooks/request/tokens.go",
		old:  `	if err != nil && isValid {`,
		new:  `	if err != nil && false {`,
	},
	{
		desc: "the server's credentials are sent to any host", test: "TestGoogleCredentials",
		file: "hooks/request/tokens.go",
		old:  `	case !t.hosts.hasHost(host):`,
		new:  `	case false:`,
	},
	{
		desc: "the server's credentials are used without the operator's permission", test: "TestGoogleCredentials",
		file: "hooks/request/tokens.go",
		old:  `	case !t.hasDefault:`,
		new:  `	case false:`,
	},
	{
		desc: "the assertion of a service account follows a redirect", test: "TestServiceAccountErrors",
		file: "hooks/request/googleauth/googleauth.go",
		old:  `return http.ErrUseLastResponse }`,
		new:  `return nil }`,
	},
	{
		desc: "what a token endpoint answers is in the error", test: "TestServiceAccountErrors",
		file: "hooks/request/googleauth/googleauth.go",
		old:  `the token endpoint answered with status %d", e.Response.StatusCode)`,
		new:  `the token endpoint answered with status %d: %w", e.Response.StatusCode, err)`,
	},
	{
		desc: "a panic of a builtin ends the server", test: "TestExecute",
		file: "hooks/builtin/executor.go",
		old:  `		if cause := recover(); cause != nil {`,
		new:  `		if cause := error(nil); cause != nil {`,
	},
}
