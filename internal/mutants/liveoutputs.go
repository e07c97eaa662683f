package main

// liveOutputs are mutations of what is shown of hooks that run.
var liveOutputs = []mutation{
	{
		desc: "a part of a line is shown before the rest", test: "TestLiveOutput",
		file: "cmd/hostler/liveoutput_linux.go",
		old:  `text[:strings.LastIndexAny(text, lineEnds)+1]`,
		new:  `text`,
	},
	{
		desc: "the end of an output begins within a line", test: "TestLiveOutputHasNoPartOfSecret",
		file: "cmd/hostler/liveoutput_linux.go",
		old:  `l.redacted(afterLineEnd(tail))`,
		new:  `l.redacted(tail)`,
	},
	{
		desc: "the output of a hook with secret parameters is shown while it runs", pkg: "cmd/hostler", test: "TestLiveOutput",
		file: "cmd/hostler/liveoutput_linux.go",
		old:  `err != nil || len(c.Sealed) > 0 {`,
		new:  `err != nil {`,
	},
	{
		desc: "single lines of a secret are shown", pkg: "hooks/request", test: "TestRedactLive",
		file: "hooks/request/redact.go",
		old:  `keyParts(v), lineParts(v))`,
		new:  `keyParts(v))`,
	},
	{
		desc: "the container is asked for readers who see no output", pkg: "api", test: "TestLiveOutput",
		file: "api/runs.go",
		old:  `a.o.LiveOutput != nil && reader.seesOutput(r) {`,
		new:  `a.o.LiveOutput != nil {`,
	},
	{
		desc: "a worker answers with the output of another command", pkg: "cmd/hostler-shim", test: "TestWorkerAnswers",
		file: "cmd/hostler-shim/worker_output.go",
		old:  `if m.RunID == j.spec.RunID {`,
		new:  `if m.RunID != "" {`,
	},
	{
		desc: "a worker whose answer is in transit runs another command", pkg: "cmd/hostler-shim", test: "TestWorkerOutputUnanswered",
		file: "cmd/hostler-shim/worker_pool.go",
		old:  `p.notReusable = !stop() || p.notReusable`,
		new:  `p.notReusable = !stop()`,
	},
	{
		desc: "a worker may answer what it was not asked", pkg: "cmd/hostler-shim", test: "TestWorkerOutputUnasked",
		file: "cmd/hostler-shim/worker_output.go",
		old:  `p.question == nil || p.question.runID != m.RunID {`,
		new:  `p.question == nil {`,
	},
	{
		desc: "a stopped worker is sent a question for each caller", pkg: "cmd/hostler-shim", test: "TestWorkerOutputUnanswered",
		file: "cmd/hostler-shim/worker_output.go",
		old: `if p.question == nil {
		p.question =`,
		new: `if p.question == nil || runID != "" {
		p.question =`,
	},
	{
		desc: "an older program is asked for output", pkg: "runtime/shim", test: "TestOutputNeedsFeature",
		file: "runtime/shim/output.go",
		old:  `if !c.Has(FeatureOutput) {`,
		new:  `if c == nil {`,
	},
	{
		desc: "an output is empty for a moment when its run ends", pkg: "cmd/hostler-shim", test: "TestOutputAtEnd",
		file: "cmd/hostler-shim/worker_output.go",
		old:  `if o.RunID != "" {`,
		new:  `if o.RunID != r.id+"." {`,
	},
	{
		desc: "a full socket of a stopped worker holds who asks", pkg: "cmd/hostler-shim", test: "TestOutputOfStoppedWorker",
		file: "cmd/hostler-shim/worker_output.go",
		old:  `go p.sendQuestion(runID)`,
		new:  `p.sendQuestion(runID)`,
	},
	{
		desc: "who asks for output waits for a program that does not read", pkg: "runtime/shim", test: "TestOutputUnread",
		file: "runtime/shim/output.go",
		old: `	case <-ctx.Done():
		err = context.Cause(ctx)`,
		new: `	case <-make(chan struct{}):`,
	},
	{
		desc: "a short line of a secret is shown before the rest", pkg: "hooks/request", test: "TestRedactLive",
		file: "hooks/request/redact_live.go",
		old:  `x.starts[first] = append(x.starts[first], s)`,
		new:  `_, _ = first, s`,
	},
	{
		desc: "what is withheld depends on each character of a secret", pkg: "hooks/request", test: "TestRedactLiveIsNoOracle",
		file: "hooks/request/redact_live.go",
		old:  `if _, complete := p.whole.match(s); !complete {`,
		new:  `if n, complete := p.whole.match(s); n > 0 && !complete {`,
	},
	{
		desc: "first short lines of a secret are shown before the rest", pkg: "hooks/request", test: "TestRedactLive",
		file: "hooks/request/redact_live.go",
		old:  `end := len(s) - index.live.lag;`,
		new:  `end := len(s);`,
	},
	{
		desc: "an answer without output makes all of it new", pkg: "cmd/hostler", test: "TestOutputFollower",
		file: "cmd/hostler/output_follow.go",
		old:  `(f.cut || len(text) < len(f.text) && strings.HasPrefix(f.text, text)) {`,
		new:  `len(text) < 0 {`,
	},
	{
		desc: "lines that repeat are lost", pkg: "cmd/hostler", test: "TestOutputFollower",
		file: "cmd/hostler/output_follow.go",
		old:  `!ok || d <= distance {`,
		new:  `!ok || distance >= 0 {`,
	},
}
