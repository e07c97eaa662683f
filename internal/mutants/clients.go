package main

const generator = "clients/typescript/generate/generate.go"

// clients are mutations of what generates the types of a client: a type that differs
// from the document.
var clients = []mutation{
	{
		desc: "properties that may be missing are always there", test: "TestTypes",
		file: generator,
		old: `		optional := "?"
		if slices.Contains(s.Required, name) {`,
		new: `		optional := ""
		if slices.Contains(s.Required, name) {`,
	},
	{
		desc: "a later version of the server may send no other value", test: "TestTypes",
		file: generator,
		old:  `	if !closed {`,
		new:  `	if false {`,
	},
	{
		desc: "clients may send other values", test: "TestTypes",
		file: generator,
		old:  `func (s schema) isClosed() bool { return string(s.AdditionalProperties) == "false" }`,
		new:  `func (s schema) isClosed() bool { return false }`,
	},
	{
		desc: "a description ends its comment", test: "TestTypes",
		file: generator,
		old:  "strings.ReplaceAll(text, \"*/\", \"*\\\\/\")",
		new:  "strings.ReplaceAll(text, \"*/\", \"*/\")",
	},
	{
		desc: "errors are answers", test: "TestTypes",
		file: generator,
		old:  `!strings.HasPrefix(status, "2")`,
		new:  `strings.HasPrefix(status, "4")`,
	},
	{
		desc: "the parameters of a path are those of a query", test: "TestTypes",
		file: generator,
		old:  `		if p.In != in {`,
		new:  `		if p.In == "header" {`,
	},
	{
		desc: "a type of the document is missing", test: "TestTypesAreOfTheDocument",
		file: generator,
		old:  `		for name := range strings.SplitSeq(contentName(r.Content), " | ") {`,
		new:  `		for name := range strings.SplitSeq(contentName(r.Content), " | ClaimCommand") {`,
	},
}
