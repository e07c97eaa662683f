package main

// channels are changes of the handshake and of what a session carries.
var channels = []mutation{
	{
		desc: "the server proves itself to a program that has not", test: "TestUnprovenProgramLearnsNothing",
		file: "runtime/shim/channel.go",
		old: `	if err := checkProof(stream, key, Program, said); err != nil {
		return nil, welcome, err
	}
	if err := WriteFrame(stream, KindProof, Proof{proof(key, Server, said)}); err != nil {
		return nil, welcome, err
	}
`,
		new: `	if err := WriteFrame(stream, KindProof, Proof{proof(key, Server, said)}); err != nil {
		return nil, welcome, err
	}
	if err := checkProof(stream, key, Program, said); err != nil {
		return nil, welcome, err
	}
`,
	},
	{
		desc: "the program's own proof sent back is the server's", test: "TestUnprovenServer",
		file: "runtime/shim/channel.go",
		old:  `"hostler proof of the " + end.name + "\x00"`,
		new:  `"hostler proof of the " + end.name[:0] + "\x00"`,
	},
	{
		desc: "any proof is good", test: "TestUnprovenProgram",
		file: "runtime/shim/channel.go",
		old:  `	if err == nil && !hmac.Equal(p.MAC, proof(key, end, said)) {`,
		new:  `	if err == nil && !hmac.Equal(p.MAC, proof(key, end, said)) && len(p.MAC) == 0 {`,
	},
	{
		desc: "a program that cannot prove itself is asked again", test: "TestUnprovenProgram",
		file: "runtime/shim/channel.go",
		old: `	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrDoomed, err)
`,
		new: `	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
`,
	},
	{
		desc: "a program of another version than the record's is believed", test: "TestAnotherVersionThanTheRecord",
		file: "runtime/shim/channel.go",
		old:  `	if welcome.Version != version {`,
		new:  `	if welcome.Version < 0 {`,
	},
	{
		desc: "a program proves itself to a server of another version", test: "TestProgramRefusesAnotherVersion",
		file: "runtime/shim/channel.go",
		old:  `	if hello.Version != Version {`,
		new:  `	if hello.Version == Version+100 {`,
	},
	{
		desc: "what the program says of itself is not proven", test: "TestGreetingsAreProven",
		file: "runtime/shim/channel.go",
		old:  `[][]byte{hello, welcome} {`,
		new:  `[][]byte{hello} {`,
	},
	{
		desc: "what the server says of itself is not proven", test: "TestGreetingsAreProven",
		file: "runtime/shim/channel.go",
		old:  `[][]byte{hello, welcome} {`,
		new:  `[][]byte{welcome} {`,
	},
	{
		desc: "all nonces are the same", test: "TestGreetingsAreProven",
		file: "runtime/shim/channel.go",
		old:  `	rand.Read(nonce) //`,
		new:  `	_, _ = rand.Reader, nonce //`,
	},
	{
		desc: "both directions have the same key", test: "TestChannelKeysDiffer",
		file: "runtime/shim/channel.go",
		old:  `"hostler frames of the "+end.name`,
		new:  `"hostler frames of the "+end.name[:0]`,
	},
	{
		desc: "the kind of a frame can be changed", test: "TestChannel",
		file: "runtime/shim/channel.go",
		old:  `	f.Body, err = c.in.Open(`,
		new: `	header[4] = byte(KindRequest)
	f.Body, err = c.in.Open(`,
	},
	{
		desc: "a frame can be repeated", test: "TestChannel",
		file: "runtime/shim/channel.go",
		old: `	c.received++
`,
		new: `	c.received = 0 * c.received
`,
	},
	{
		desc: "two messages have the same nonce", test: "TestChannel",
		file: "runtime/shim/channel.go",
		old: `	c.sent++
	_, err = c`,
		new: `	c.sent = 0 * c.sent
	_, err = c`,
	},
	{
		desc: "all containers have the same key", test: "TestUnprovenProgram",
		file: "runtime/shim/token.go",
		old:  `[]byte("hostler session " + containerID)`,
		new:  `[]byte("hostler session " + containerID[:0])`,
	},
}
