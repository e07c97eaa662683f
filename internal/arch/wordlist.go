package arch

// bannedWords are metaphors, private verbs and translated phrases that once
// stood where the field has a term. The glossary in ARCHITECTURE.md has the
// terms that Hostler uses.
var bannedWords = []bannedWord{
	// Phrases that were translated.
	{`says? (?:whether|that|why|how|which|what|when|where|who|so)`, `"reports whether", "returns", "describes"`},
	{`makes? no sense`, `"is invalid"`},
	{`for ever`, `"indefinitely", "forever"`},
	{`anew`, `"again"`},
	{`beside`, `"next to", "concurrently with", "compared with"`},
	{`besides`, `"also", "in addition"`},
	{`in vain`, `"unsuccessfully"`},
	{`by and by`, `"eventually"`},
	{`seldom`, `"rarely"`},
	{`at the least`, `"at least"`},
	{`to be had`, `"available"`},
	{`(?:go|goes|gone|going|went) on`, `"continue", "resume"`},
	{`(?:take|takes|taken|taking|took) up`, `"resume"`},
	{`a moment later`, `"after 100 ms": the duration`},
	{`whoever`, `"the caller", "a process that"`},
	{`somebody(?:'s)?`, `"another process", "a tenant", "someone"`},
	{`nobody(?:'s)?`, `"no one", "no process"`},
	{`meanwhile`, `"concurrently", "in the meantime"`},

	// Personification.
	{`(?:tell|tells|telling|tellings)`, `"report", "record", "log", "emit", "distinguish"`},
	{`(?:hear|hears|heard|hearing)`, `"receive", "observe", "handle"`},
	{`heed`, `"handle"`},
	{`patience|patient|patiently`, `"timeout", "with retries"`},
	{`deaf|deafened`, `"ignores the signal"`},
	{`lonely`, `"orphaned"`},
	{`suicidal`, `"self-killing"`},
	{`hopeless`, `"fail fast"`},
	{`insists?`, `"retry"`},
	{`blames?`, `"classify"`},

	// Metaphors.
	{`bury|buries|buried|obituary|obituaries`, `"mark destroyed", "exit tracker"`},
	{`doom|dooms|doomed|spoiled`, `"tainted"`},
	{`condemn|condemns|condemned`, `"begin to destroy"`},
	{`perish|perished`, `"exit repeatedly"`},
	{`yard`, `"harness"`},
	{`guests?|lodgers?|visitors?`, `"session", "tenant", "client", "test program"`},
	{`census`, `"scan"`},
	{`leash`, `"start gate"`},
	{`deeds?`, `"action", "handler"`},
	{`mend|mends|mended|mending`, `"fix", "repair", "restore"`},
	{`verdicts?`, `"result"`},
	{`folders?`, `"directory"`},
	{`remedy|remedies`, `"hint"`},
}

// allowedWords are where a banned word is the standard term.
var allowedWords = []struct{ file, word string }{
	{"runtime/fake/image.go", "nobody"}, // the account of that name
	{"CHANGELOG.md", "folders"},         // the former name of a flag
}
