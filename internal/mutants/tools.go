package main

// tools are mutations of what authors of hooks use: validate and dry runs.
var tools = []mutation{
	{
		desc: "an unreadable file is not a failure", test: "TestValidateDirectories",
		file: "cmd/hostler/validate_files.go",
		old: `	if err != nil {
		f.add(isError, workload.ValidationError{Message: err.Error()})
		return f`,
		new: `	if err != nil {
		return f`,
	},
	{
		desc: "an empty directory is valid", test: "TestValidateDirectories",
		file: "cmd/hostler/validate_files.go",
		old:  `if err == nil && len(names) == 0 {`,
		new:  `if err == nil && names == nil && v.all {`,
	},
	{
		desc: "copied hooks are checked without those that their workload copies", test: "TestValidateCopiedHooks",
		file: "cmd/hostler/validate_files.go",
		old:  `if v.resolve(other); other.workload.HooksFrom`,
		new:  `if other.workload.HooksFrom`,
	},
	{
		desc: "workloads that copy each other's hooks are valid", test: "TestValidateCopiedHooks",
		file: "cmd/hostler/validate_files.go",
		old:  `if other.isResolving {`,
		new:  `if other == f {`,
	},
}
