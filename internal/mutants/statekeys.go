package main

// stateKeys are mutations of ranges of objects, of the keys of tenants' state,
// and of the version of the list of snapshots.
var stateKeys = []mutation{
	{
		desc: "state is stored without the server's keys", test: "TestUploadsAreEncrypted",
		file: "snapshot/repository.go",
		old:  `Keys: s.keys}`,
		new:  `Keys: nil}`,
	},
	{
		desc: "the whole object is taken for a range", test: "TestCloudsWithoutRanges", pkg: "snapshot",
		file: "snapshot/cloud/bucket.go",
		old:  `case first != offset:`,
		new:  `case first != offset && offset < 0:`,
	},
	{
		desc: "a connection that ends early is a damaged object", test: "TestCloudsRangeCut", pkg: "snapshot",
		file: "snapshot/cloud/range.go",
		old:  `return n, withoutShort(err)`,
		new:  `return n, err`,
	},
	{
		desc: "a range with fewer bytes is complete", test: "TestDirRange",
		file: "snapshot/range.go",
		old:  `err == io.EOF && r.left > 0`,
		new:  `err == io.EOF && r.left < 0`,
	},
	{
		desc: "a read of a range ignores that its context has ended", test: "TestContract",
		file: "snapshot/cloud/range.go",
		old:  `if r.ctx.Err() != nil {`,
		new:  `if r.ctx == nil {`,
	},
	{
		desc: "a range that is none is read", test: "TestDirContract",
		file: "snapshot/range.go",
		old:  `size <= 0 || offset`,
		new:  `size < 0 || offset`,
	},
	{
		desc: "a state key that other users can read is used", test: "TestLoad",
		file: "snapshot/statekey/file.go",
		old:  `mode&0o007 != 0`,
		new:  `mode&0o000 != 0`,
	},
	{
		desc: "the last state key encrypts", test: "TestPack",
		file: "snapshot/statekey/file.go",
		old: `if len(k.keys) == 0 {
			k.current = id`,
		new: `if k.current != id {
			k.current = id`,
	},
	{
		desc: "all packs have one key", test: "TestPack",
		file: "snapshot/statekey/statekey.go",
		old:  `key, pack[:], infoPack`,
		new:  `key, nil, infoPack`,
	},
	{
		desc: "a server without its state keys starts", test: "TestStartWithoutStateKeys",
		file: "cmd/hostler/state_keys_linux.go",
		old: `	if err != nil {
		return nil, fmt`,
		new: `	if err != nil && keys != nil {
		return nil, fmt`,
	},
	{
		desc: "a list of snapshots of a later version is read", test: "TestUnknownVersions",
		file: "snapshot/manifest.go",
		old:  `case version == manifestVersion:`,
		new:  `case version >= manifestVersion:`,
	},
	{
		desc: "a list of snapshots without a version is one of another Hostler", test: "TestUnknownVersions",
		file: "snapshot/manifest.go",
		old:  `case version < 1:`,
		new:  `case version < -1:`,
	},
}
