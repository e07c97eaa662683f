package main

// channels are mutations of the handshake and the frames of a session.
var channels = []mutation{
	{
		desc: "the server sends its proof to a program without one", test: "TestUnauthenticatedProgramLearnsNothing",
		file: "runtime/shim/channel.go",
		old: `	if err := verifyProof(stream, key, Program, digest); err != nil {
		return nil, reply, err
	}
	if err := WriteFrame(stream, KindProof, Proof{proof(key, Server, digest)}); err != nil {
		return nil, reply, err
	}
`,
		new: `	if err := WriteFrame(stream, KindProof, Proof{proof(key, Server, digest)}); err != nil {
		return nil, reply, err
	}
	if err := verifyProof(stream, key, Program, digest); err != nil {
		return nil, reply, err
	}
`,
	},
	{
		desc: "the program's own proof is accepted as the server's", test: "TestUnauthenticatedServerIsRefused",
		file: "runtime/shim/channel.go",
		old:  `"hostler proof of the " + end.name + "\x00"`,
		new:  `"hostler proof of the " + end.name[:0] + "\x00"`,
	},
	{
		desc: "any proof is accepted", test: "TestUnauthenticatedProgramIsTainted",
		file: "runtime/shim/channel.go",
		old:  `	if err == nil && !hmac.Equal(p.MAC, proof(key, end, digest)) {`,
		new:  `	if err == nil && !hmac.Equal(p.MAC, proof(key, end, digest)) && len(p.MAC) == 0 {`,
	},
	{
		desc: "a program with a wrong proof is retried", test: "TestUnauthenticatedProgramIsTainted",
		file: "runtime/shim/channel.go",
		old: `	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrTainted, err)
`,
		new: `	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
`,
	},
	{
		desc: "a program with a version other than the recorded one is accepted", test: "TestVersionMismatchTaints",
		file: "runtime/shim/channel.go",
		old:  `	if reply.Version != version {`,
		new:  `	if reply.Version < 0 {`,
	},
	{
		desc: "a program sends its proof to a server of another version", test: "TestProgramRefusesOtherVersion",
		file: "runtime/shim/channel.go",
		old:  `	if received.Version != Version {`,
		new:  `	if received.Version == Version+100 {`,
	},
	{
		desc: "the proof does not cover the program's handshake", test: "TestHandshakeIsAuthenticated",
		file: "runtime/shim/channel.go",
		old:  `[][]byte{request, reply} {`,
		new:  `[][]byte{request} {`,
	},
	{
		desc: "the proof does not cover the server's handshake", test: "TestHandshakeIsAuthenticated",
		file: "runtime/shim/channel.go",
		old:  `[][]byte{request, reply} {`,
		new:  `[][]byte{reply} {`,
	},
	{
		desc: "all nonces are the same", test: "TestHandshakeIsAuthenticated",
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
		desc: "the kind of a frame is not authenticated", test: "TestChannelIntegrity",
		file: "runtime/shim/channel.go",
		old:  `	f.Body, err = c.in.Open(`,
		new: `	header[4] = byte(KindRequest)
	f.Body, err = c.in.Open(`,
	},
	{
		desc: "a replayed frame is accepted", test: "TestChannelIntegrity",
		file: "runtime/shim/channel.go",
		old: `	c.received++
`,
		new: `	c.received = 0 * c.received
`,
	},
	{
		desc: "two messages have the same nonce", test: "TestChannelIntegrity",
		file: "runtime/shim/channel.go",
		old: `	c.sent++
	_, err = c`,
		new: `	c.sent = 0 * c.sent
	_, err = c`,
	},
	{
		desc: "all containers have the same key", test: "TestUnauthenticatedProgramIsTainted",
		file: "runtime/shim/key.go",
		old:  `[]byte("hostler session " + containerID)`,
		new:  `[]byte("hostler session " + containerID[:0])`,
	},
	{
		desc: "a reset without a reason is sent unchanged", test: "TestStreamResetWithoutReason",
		file: "runtime/shim/stream.go",
		old:  `	if reason == nil {`,
		new:  `	if reason == errNoReason {`,
	},
	{
		desc: "the wait for a container that the kubelet does not restart has no limit", test: "TestCrashLoopIsNotAwaitedIndefinitely",
		file: "runtime/kubernetes/lifecycle.go",
		old:  `	err := r.awaitPod(bounded, pod, func(now *corev1.Pod) (bool, error) {`,
		new:  `	err := r.awaitPod(ctx, pod, func(now *corev1.Pod) (bool, error) {`,
	},
	{
		desc: "a copy waits for an unavailable engine without end", test: "TestCallsWhileEngineIsUnavailable",
		file: "runtime/shim/calls.go",
		old:  `		if !changes && errors.Is(err, runtime.ErrUnavailable) {`,
		new:  `		if !changes && errors.Is(err, runtime.ErrExists) {`,
	},
	{
		desc: "a server whose lease has expired ends a command", test: "TestCancelledExecWithoutLease",
		file: "runtime/shim/exec.go",
		old: `	if err := e.session.mayChange(); err != nil {
		return err
	}
`,
	},
	{
		desc: "a query of an outcome waits for an unavailable engine", test: "TestCallsWhileEngineIsUnavailable",
		file: "runtime/shim/exec.go",
		old:  `		if e.request.Op == OpWaitResult && errors.Is(err, runtime.ErrUnavailable) {`,
		new:  `		if false {`,
	},
	{
		desc: "the stream of a start that failed is closed at once", test: "TestStartErrorAwaitsTheEnd",
		file: "runtime/shim/session.go",
		old:  `		awaitEnd(stream)`,
		new:  ``,
	},
	{
		desc: "a call whose context has ended requests something", test: "TestCallOfEndedContext",
		file: "runtime/shim/calls.go",
		old:  `	if ctx.Err() != nil { // an`,
		new:  `	if false && ctx.Err() != nil { // an`,
	},
	{
		desc: "a command of a container that waits for its start is unknown", test: "TestInitWithFenceWaitsForStart",
		file: "cmd/hostler-shim/commands.go",
		old:  `	if s.exited {`,
		new:  `	if false {`,
	},
	{
		desc: "a frame keeps the buffer in which a stream has its bytes", test: "TestLargeChunksKeepTheirFrame",
		file: "runtime/shim/stream.go",
		old:  `		buffer, *frame = (*frame)[:0], buffer[:frameBuffer]`,
		new:  `		buffer = (*frame)[:0]`,
	},
	{
		desc: "the memory of a chunk is used again while another item has it", test: "TestMemoryOfSharedChunk",
		file: "snapshot/fetch.go",
		old:  `		if it.blob.uses--; it.blob.uses == 0 {`,
		new:  "\t\tf.memory.put(it.blob.data)\n\t\tif it.blob.uses--; it.blob.uses == 0 {",
	},
}
