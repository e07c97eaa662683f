package main

// newcomers are mutations of what the command line suggests to people who are new to it.
var newcomers = []mutation{
	{
		desc: "a flag hides that the command before it is unknown", test: "TestExitCodes",
		file: "cmd/hostler/usage.go",
		old:  `cmd.HasAvailableSubCommands() && len(words) > 0`,
		new:  `cmd.HasAvailableSubCommands() && len(words) > 9`,
	},
	{
		desc: "a word of another program has no suggestion", test: "TestExitCodes",
		file: "cmd/hostler/usage.go",
		old:  `for n := min(len(args), 2); n > 0; n-- {`,
		new:  `for n := min(len(args), 2); n > 2; n-- {`,
	},
	{
		desc: "an argument of a command without any is an unknown command", test: "TestExitCodes",
		file: "cmd/hostler/usage.go",
		old:  `case len(args) > len(all):`,
		new:  `case len(args) > len(all) && len(all) > 0:`,
	},
	{
		desc: "a command is suggested in a container that has exited", test: "TestNextOfClaim",
		file: "cmd/hostler/describe_next.go",
		old:  `c.State != client.ClaimActive || health != client.Exited`,
		new:  `c.State != client.ClaimActive || health != ""`,
	},
	{
		desc: "each failed claim is said to have lost its state", test: "TestNextOfClaim",
		file: "cmd/hostler/describe_next.go",
		old:  `return e.Type == client.EventSyncFailed })`,
		new:  `return e.Type == client.EventSyncFailed }) || c.State == client.ClaimFailed`,
	},
	{
		desc: "a trial hides what validate notes", test: "TestTrialNotes",
		file: "cmd/hostler/trial_linux.go",
		old:  `slices.Concat(w.Notes, w.Advice, linted)`,
		new:  `slices.Concat(w.Notes, linted)`,
	},
	{
		desc: "a client's key is a key of the server's file without a warning", test: "TestKeyFileWithMadeKey",
		file: "auth/credential/keyfile.go",
		old:  `e.isMade = strings.HasPrefix(key, keyPrefix)`,
		new:  `e.isMade = strings.HasPrefix(name, keyPrefix)`,
	},
	{
		desc: "the name of a revoked key is refused without what to do", test: "TestBootstrapAfterRevocation",
		file: "cmd/hostler/key_offline_linux.go",
		old:  `if errors.Is(err, credential.ErrExists) {`,
		new:  `if errors.Is(err, credential.ErrFirst) {`,
	},
}
