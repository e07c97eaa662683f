package main

// recoveries are mutations of how pools recover from failures, and of what keeps
// one pool from delaying another.
var recoveries = []mutation{
	{
		desc: "some workloads can use all slots for creating", test: "TestHungCreationsOfSomeWorkloads",
		file: "pool/filler.go",
		old:  `Reserved: reservedCreates,`,
		new:  `Reserved: 0,`,
	},
	{
		desc: "some workloads can use all slots for removing", test: "TestSlowPreDestroysOfSomeWorkloads",
		file: "pool/reaper.go",
		old:  `Reserved: reservedDestroys,`,
		new:  `Reserved: 0,`,
	},
	{
		desc: "a large pool is drained at once", test: "TestDrainOfLargePoolDelaysNoOther",
		file: "pool/scaledown.go",
		old:  `		if evicted == evictBatch {`,
		new:  `		if evicted < 0 {`,
	},
	{
		desc: "the rest of a large pool is not drained", test: "TestDrainOfLargePoolDelaysNoOther",
		file: "pool/scaledown.go",
		old: `			f.Wake(id)
			break
`,
		new: `			break
`,
	},
	{
		desc: "an error of the database when a server begins to lead is not retried", test: "TestStorageErrorAtStartIsRetried",
		file: "pool/provisioner.go",
		old:  `		if err == nil || ctx.Err() != nil {`,
		new:  `		if err == nil || ctx != nil {`,
	},
}
