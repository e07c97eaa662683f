package main

// transports are mutations of what accepts connections.
var transports = []mutation{
	{
		desc: "a certificate that was replaced stays in use", test: "TestReload",
		file: "transport/tls.go",
		old:  `if cert, isNew := look(t.log, &t.pair); isNew {`,
		new:  `if cert, isNew := look(t.log, &t.pair); isNew && false {`,
	},
	{
		desc: "files that are half written are logged", test: "TestReload",
		file: "transport/tls.go",
		old:  `if err == nil && f.problem != "" && !f.logged {`,
		new:  `if (err == nil || !isNew) && f.problem != "" && !f.logged {`,
	},
	{
		desc: "TLS 1.1 is spoken", test: "TestTLSVersions",
		file: "transport/tls.go",
		old:  `MinVersion: tls.VersionTLS12,`,
		new:  `MinVersion: tls.VersionTLS10,`,
	},
	{
		desc: "a certificate is verified by the handshake only", test: "TestReplacedAuthority",
		file: "transport/clients.go",
		old:  `if p.verified == nil || p.verified.clients != m.clients {`,
		new:  `if p.verified == nil {`,
	},
	{
		desc: "a connection keeps an expired certificate alive", test: "TestExpiredOnAnOpenConnection",
		file: "transport/clients.go",
		old:  `if p.err == nil && now.After(p.expires) {`,
		new:  `if p.err == nil && false {`,
	},
	{
		desc: "a request in progress outlives its certificate", test: "TestExpiredOnAnOpenConnection",
		file: "transport/clients.go",
		old:  `func() { end(auth.ErrExpired) })`,
		new:  `func() {})`,
	},
	{
		desc: "a request in progress outlives the authority of its certificate", test: "TestReplacedAuthority",
		file: "transport/tls.go",
		old:  `	if next.clients != used.clients {`,
		new:  `	if next.clients != used.clients && false {`,
	},
	{
		desc: "a damaged file of authorities has fewer of them", test: "TestLoadRefuses",
		file: "transport/files.go",
		old:  `return nil, errors.New("the file has something that is not PEM")`,
		new:  `return pool, nil`,
	},
	{
		desc: "a certificate has one of several common names", test: "TestCertificateSubject",
		file: "auth/certificate.go",
		old:  `case common > 1:`,
		new:  `case common > 2:`,
	},
	{
		desc: "a name that is not valid is replaced by a DNS name", test: "TestCertificateSubject",
		file: "auth/certificate.go",
		old:  `case common == 0 && name == "" && len(cert.DNSNames) > 0:`,
		new:  `case (common == 0 && name == "" || len(name) > maxCertificateName) && len(cert.DNSNames) > 0:`,
	},
	{
		desc: "the socket of a server that lives is taken", test: "TestForeignSocket",
		file: "transport/unix_linux.go",
		old:  `		return errors.Join(ErrSocketInUse, conn.Close())`,
		new:  `		return conn.Close()`,
	},
	{
		desc: "a socket is put where every user can write", test: "TestRefusedSockets",
		file: "transport/unix_linux.go",
		old:  `if info.Mode().Perm()&0o002 != 0 {`,
		new:  `if info.Mode().Perm()&0o000 != 0 {`,
	},
	{
		desc: "a connection to a port over TLS that ends early looks complete", test: "TestPortConnectionOverTLSEndsEarly",
		file: "api/port_conn.go",
		old:  `		c = secure.NetConn() // without`,
		new:  `		_ = secure.NetConn() // without`,
	},
}

// failedCredentials are mutations of the limits of invalid credentials.
var failedCredentials = []mutation{
	{
		desc: "attempts within a delay extend it", test: "TestConcurrentAttempts",
		file: "auth/attempts/attempts.go",
		old:  `		if now.Before(limited.until) {`,
		new:  `		if false {`,
	},
	{
		desc: "a program locks out others behind its address", test: "TestOthersBehindTheAddress",
		file: "auth/attempts/attempts.go",
		old: `	if err == nil {
		return p, nil
	}
	reason`,
		new: `	if err == nil && wait <= 0 {
		return p, nil
	}
	reason`,
	},
	{
		desc: "each address of a subscriber's network is a client", test: "TestClients",
		file: "auth/attempts/attempts.go",
		old:  `	if address.Is6() {`,
		new:  `	if false {`,
	},
	{
		desc: "the table of addresses has no bound", test: "TestManyAddresses",
		file: "auth/attempts/table.go",
		old:  `	if len(t.entries) >= t.max {`,
		new:  `	if false {`,
	},
	{
		desc: "all tokens of a limited address are verified at once", test: "TestLimitedAddressesWaitForFewVerifications",
		file: "auth/attempts/verifier.go",
		old:  `; ok && !v.isKnown(hash) {`,
		new:  `; ok && false && !v.isKnown(hash) {`,
	},
	{
		desc: "tokens that were accepted before are refused to a limited address", test: "TestLimitedAddressesWaitForFewVerifications",
		file: "auth/attempts/verifier.go",
		old:  `; ok && !v.isKnown(hash) {`,
		new:  `; ok {`,
	},
}
