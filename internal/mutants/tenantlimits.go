package main

// tenantLimits are mutations of what keeps tenants from each other, from hooks and
// from what is recorded of them.
var tenantLimits = []mutation{
	{
		desc: "tenants take all of the streams of a connection", test: "TestTenantsLeaveRoomOnTheConnection",
		file: "runtime/shim/role.go",
		old:  `		r.maxStreams -= keptStreams`,
		new:  `		r.maxStreams -= 0 * keptStreams`,
	},
	{
		desc: "tenants take all of the requests of a connection", test: "TestTenantsLeaveRoomOnTheConnection",
		file: "runtime/shim/role.go",
		old:  `		r.maxRequests -= keptRequests`,
		new:  `		r.maxRequests -= 0 * keptRequests`,
	},
	{
		desc: "a program that is busy forever holds up a release", test: "TestHostileProgramDelaysNoRelease",
		file: "runtime/shim/command.go",
		old: `context.WithTimeoutCause(ctx, timeout, silentError(timeout))
	defer cancel()
	_, err := s.commandCall(`,
		new: `context.WithCancel(ctx)
	defer cancel()
	_, err := s.commandCall(`,
	},
	{
		desc: "a program that does not close ports holds up a release", test: "TestHostileProgramDelaysNoRelease",
		file: "runtime/shim/port.go",
		old:  `context.WithTimeoutCause(ctx, callTimeout, silentError(callTimeout))`,
		new:  `context.WithTimeoutCause(ctx, portTimeout, errPortTimeout)`,
	},
	{
		desc: "a program that answers another error holds up a release", test: "TestHostileProgramDelaysNoRelease",
		file: "runtime/shim/calls.go",
		old:  `	if errors.Is(err, ErrProtocol) || ok && !slices`,
		new:  `	if errors.Is(err, ErrProtocol) || ok && errors.Is(err, ErrProtocol) && !slices`,
	},
	{
		desc: "a container is destroyed because another server has its claim", test: "TestAnswersAtTheEndOfAClaim",
		file: "runtime/shim/calls.go",
		old:  `	runtime.ErrStaleFence, runtime.ErrUnavailable, runtime.ErrTainted,`,
		new:  `	runtime.ErrUnavailable, runtime.ErrTainted,`,
	},
	{
		desc: "a connection to a port is made after the end of its claim", test: "TestPendingConnectionEndsWithItsClaim",
		file: "cmd/hostler-shim/port_socket.go",
		old:  `			_ = socket.SetWriteDeadline(time.Unix(1, 0)) // interrupts the wait`,
		new:  ``,
	},
	{
		desc: "a timer holds a command that was forgotten", test: "TestForgottenCommandIsHeldByNothing",
		file: "cmd/hostler-shim/commands.go",
		old:  `	if !slices.Contains(s.all, c) {`,
		new:  `	if c == nil {`,
	},
	{
		desc: "a command starts while one with its ID is recorded as running", test: "TestIDIsUsedAgainAtOnce",
		file: "access/recorder.go",
		old: `	if !added {
		return ErrCommandOpen
	}`,
		new: ``,
	},
	{
		desc: "a start that was lost cannot be repeated", test: "TestLostStartIsRepeated",
		file: "access/start.go",
		old:  `		if try == settleTry {`,
		new:  `		if try < 0 {`,
	},
	{
		desc: "a repeated start beyond the limits loses the end", test: "TestRepeatedStartBeyondTheLimits",
		file: "access/recorder.go",
		old:  `	if !ok && r.limits.isRecorded(k) {`,
		new:  `	if !ok && r.limits.isEnded(k) {`,
	},
	{
		desc: "the end of a command is queued again and again", test: "TestEndIsQueuedOnce",
		file: "access/recorder.go",
		old:  `		r.limits.setEnded(k)`,
		new:  ``,
	},
}
