package main

// frames are mutations of the buffers of frames and chunks, and of what is kept of
// what a program sends.
var frames = []mutation{
	{
		desc: "data follow the reset of a stream", test: "TestNothingFollowsReset",
		file: "runtime/shim/stream.go",
		old:  "	s.isReset = kind == KindReset\n",
		new:  "",
	},
	{
		desc: "the buffer of bytes that are being written is used again", test: "TestWrittenBytesAreKept",
		file: "runtime/shim/stream.go",
		old:  "		n, err := to.Write(first.unread)\n",
		new:  "		s.recycle(first.buffer)\n		n, err := to.Write(first.unread)\n",
	},
	{
		desc: "the buffer of a frame is used again before it is written", test: "TestStreamsKeepTheirBytes",
		file: "runtime/shim/channel.go",
		old:  "	defer c.buffers.Put(buffer)\n	buf :=",
		new:  "	c.buffers.Put(buffer)\n	buf :=",
	},
	{
		desc: "idle streams of small windows keep buffers", test: "TestMemoryOfStream",
		file: "runtime/shim/stream_buffer.go",
		old:  `min(maxSpare, s.window/MaxData)`,
		new:  `maxSpare`,
	},
	{
		desc: "all of a response is kept", test: "TestResponseIsLimited",
		file: "runtime/shim/exchange.go",
		old:  "	response.limit(x.op)\n",
		new:  "",
	},
	{
		desc: "a list of commands is decoded whole", test: "TestListOfManyCommands",
		file: "runtime/shim/response.go",
		old:  ` && len(*l) <= maxListedCommands`,
		new:  ``,
	},
	{
		desc: "the error of a handshake is kept whole", test: "TestStartErrorIsCut",
		file: "runtime/shim/session.go",
		old:  "	reply.Error.limit()\n",
		new:  "",
	},
	{
		desc: "a connection is opened for an ended context", test: "TestNothingIsOpenedForEndedContext",
		file: "runtime/shim/session.go",
		old:  `	if ctx.Err() != nil { // both`,
		new:  `	if false && ctx.Err() != nil { // both`,
	},
	{
		desc: "a chunk of two items is free after the first", test: "TestMemoryIsCountedOnce",
		file: "snapshot/fetch.go",
		old:  "		it.blob.uses++\n",
		new:  "",
	},
	{
		desc: "less memory is counted than is free later", test: "TestMemoryIsCountedOnce",
		file: "snapshot/fetch.go",
		old:  `f.admit(it.cost + memoryOf(content.Ref))`,
		new:  `f.admit(it.cost + int(content.Ref.Size))`,
	},
	{
		desc: "the memory of a chunk is returned before it is written", test: "TestDownloadedBytesAreOwn",
		file: "snapshot/fetch.go",
		old:  "	return it, ok, nil\n}\n\n// memoryOf",
		new:  "	if it.blob != nil {\n		f.memory.put(it.blob.data)\n	}\n	return it, ok, nil\n}\n\n// memoryOf",
	},
	{
		desc: "a request of a container keeps maps of any size", test: "TestServeRefusesRogueProgram",
		file: "runtime/shim/serve.go",
		old:  ` || len(r.Paths)+len(r.Environment) > 0: //`,
		new:  `: //`,
	},
}
