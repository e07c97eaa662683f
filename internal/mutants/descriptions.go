package main

// descriptions are mutations of the commands that show and find objects, and of the
// lists that these need.
var descriptions = []mutation{
	{
		desc: "a part of an id finds what is not in the reader's scope or filter", test: "TestSQLite", pkg: "store",
		file: "store/lists.go",
		old:  `w.add(fmt.Sprintf("(substr(id, 1, %d) = %s OR substr(id, length(id) - %d) = %s)", n, value, n-1, value))`,
		new:  `w.add(fmt.Sprintf("substr(id, 1, %d) = %s OR substr(id, length(id) - %d) = %s", n, value, n-1, value))`,
	},
	{
		desc: "the end of an id is a letter too long", test: "TestSQLite", pkg: "store",
		file: "store/lists.go",
		old:  `n, value, n-1, value))`,
		new:  `n, value, n, value))`,
	},
	{
		desc: "the newest come from the wrong end of a page", test: "TestSQLite", pkg: "store",
		file: "store/lists.go",
		old:  `true: "id < "`,
		new:  `true: "id > "`,
	},
	{
		desc: "the newest events are shown in the reverse order", test: "TestSQLite", pkg: "store",
		file: "store/events.go",
		old: `	slices.Reverse(p.Items)
	return p, nil`,
		new: `	_ = slices.Reverse[[]int]
	return p, nil`,
	},
	{
		desc: "the first of several ids is taken", test: "TestPartsOfIDs", pkg: "cmd/hostler",
		file: "cmd/hostler/ids.go",
		old:  `if len(ids) == 1 {`,
		new:  `if len(ids) > 0 {`,
	},
	{
		desc: "a whole id costs a request more", test: "TestWholeIDsCostNoRequest", pkg: "cmd/hostler",
		file: "cmd/hostler/ids.go",
		old:  `len(part) >= maxIDPart || uuid.Validate(part) == nil`,
		new:  `uuid.Validate(part) != nil && len(part) > maxIDPart`,
	},
	{
		desc: "a description controls the terminal", test: "TestDescribeSanitizes", pkg: "cmd/hostler",
		file: "cmd/hostler/describe_print.go",
		old:  `fmt.Fprintln(w, sanitize(strings.Join(t.lines, "\n")))`,
		new:  `fmt.Fprintln(w, strings.Join(t.lines, "\n"))`,
	},
	{
		desc: "a description shows what doctor reports about others", test: "TestDescribeFindings", pkg: "cmd/hostler",
		file: "cmd/hostler/describe.go",
		old:  `return f.Claim == c.ID })`,
		new:  `return true })`,
	},
	{
		desc: "lines that were lost from a log are not noticed", test: "TestLogFollower", pkg: "cmd/hostler",
		file: "cmd/hostler/logs_follow.go",
		old:  `return text, lostText`,
		new:  `return text, noGap`,
	},
	{
		desc: "an error with -o json is text", test: "TestProblems", pkg: "cmd/hostler",
		file: "cmd/hostler/problem.go",
		old:  `if format != "json" && format != "yaml" || err == nil {`,
		new:  `if format != "yaml" || err == nil {`,
	},
}
