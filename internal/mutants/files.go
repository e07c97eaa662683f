package main

// workloadFiles are mutations of package workload.
var workloadFiles = []mutation{
	{
		desc: "the file of a limit may be a secret", test: "TestParseRejectsHooks",
		file: "workload/hook_values.go",
		old:  `		if strings.HasSuffix(s.File, ".allow") {`,
		new:  `		if false {`,
	},
	{
		desc: "a request does not capture the response that a hook names", test: "TestNamedResponses",
		file: "workload/build_hooks.go",
		old: `	w.captureResponses()
`,
	},
	{
		desc: "a hook captures any number of values", test: "TestParseRejectsHooks",
		file: "workload/hook_values.go",
		old:  `n.Kind == yaml.MappingNode && count > maxCaptures {`,
		new:  `n.Kind == yaml.MappingNode && count < 0 {`,
	},
	{
		desc: "a secret may stand in an environment", test: "TestParseRejectsHooks",
		file: "workload/check_hooks.go",
		old:  `d.addTemplateError(at, t.CheckText(scope.classOf), scope)`,
		new:  `d.addTemplateError(at, nil, scope)`,
	},
	{
		desc: "a command of an event hook can be for the end of a claim", test: "TestParseRejectsHooks",
		file: "workload/events.go",
		old:  `if !inContainer || len(h.On) == 0 ||`,
		new:  `if !inContainer || len(h.On) > 0 ||`,
	},
	{
		desc: "a command can be at a point where nothing runs", test: "TestParseRejectsHooks",
		file: "workload/check_hooks.go",
		old:  `h.point.Rule().NotStarted && h.kind()`,
		new:  `h.point.Rule().MayBeStopped && h.kind()`,
	},
	{
		desc: "a hook for events may fail a flow", test: "TestParseRejectsHooks",
		file: "workload/points.go",
		old:  `rule{enum: []string{"continue", "retry", "log"}, defaultValue: "retry"`,
		new:  `rule{enum: []string{"continue", "retry", "log", "fail"}, defaultValue: "retry"`,
	},
	{
		desc: "names that nothing supplies are accepted in Hostler's own form", test: "TestParseRejectsHooks",
		file: "workload/check_request.go",
		old:  `if h.form != listedForm {`,
		new:  `if h.form == textForm {`,
	},
	{
		desc: "a capture may have the name of a secret", test: "TestParseRejectsHooks",
		file: "workload/names.go",
		old:  `if _, twice := s.secrets[name]; twice {`,
		new:  `if _, twice := s.secrets[at]; twice {`,
	},
	{
		desc: "Google's tokens are sent over http", test: "TestParseRejectsHooks",
		file: "workload/check_request.go",
		old:  `if way == hooks.AuthGCP || way`,
		new:  `if way == hooks.AuthNone || way`,
	},
	{
		desc: "an alias is for every event of its types", test: "TestEventHookMatches",
		file: "hooks/events.go",
		old:  `return !ok || isSet(data, only)`,
		new:  `return !ok || only != ""`,
	},
	{
		desc: "executables of the image are not part of the revision", test: "TestRevisionOfImageHooks",
		file: "workload/revision.go",
		old:  `, "image_hooks": w.ImageHooks,`,
		new:  `,`,
	},
	{
		desc: "an empty list does not remove copied hooks", test: "TestWithHooksOf",
		file: "workload/inherit.go",
		old:  `if !slices.Contains(w.cleared, string(p)) {`,
		new:  `if !slices.Contains(other.cleared, string(p)) {`,
	},
	{
		desc: "copied hooks are copied again when a server restarts", test: "TestWithHooksOf",
		file: "workload/inherit.go",
		old:  `w.HooksFrom != "" && bytes.HasPrefix`,
		new:  `w.HooksFrom == "" && bytes.HasPrefix`,
	},
	{
		desc: "a file is applied before the one that it copies hooks from", test: "TestDirectoryReportsParentsFirst",
		file: "workload/directory.go",
		old:  `return append(f.removals(), parentsFirst(f.changes(prior))...), nil`,
		new:  `return append(f.removals(), f.changes(prior)...), nil`,
	},
	{
		desc: "the normal form omits that a hook does not block", test: "TestNormalizedHooks",
		file: "workload/normalize.go",
		old:  `if e.Point != "" {`,
		new:  `if e.Point == "" {`,
	},
	{
		desc: "the worst case omits retries", test: "TestWorstCase",
		file: "workload/worstcase.go",
		old:  `time.Duration(h.Retries+1)`,
		new:  `time.Duration(1)`,
	},
	{
		desc: "a script in the form of text stops the flow", test: "TestTextForm",
		file: "workload/forms.go",
		old: `OnError: string(hooks.Continue), Enabled: true},
			processFile: `,
		new: `OnError: string(hooks.Fail), Enabled: true},
			processFile: `,
	},
	{
		desc: "a script in the form of text has no limits", test: "TestTextForm",
		file: "workload/forms.go",
		old:  `, Limits: &hookLimitsFile{CPUTime: duration(textCPUTime), FileSize: textFileSize}`,
	},
	{
		desc: "a script in the form of text runs in another shell", test: "TestTextForm",
		file: "workload/forms.go",
		old:  `Shell: shellArgs{"/bin/bash"},`,
		new:  `Shell: shellArgs{"/bin/sh"},`,
	},
	{
		desc: "a script in the form of text does not have what was signalled", test: "TestTextFormAtWaits",
		file: "workload/forms.go",
		old:  `{"SIGNAL_DATA", "WAIT_DURATION"}`,
		new:  `{"WAIT_DURATION"}`,
	},
	{
		desc: "a script in the form of text does not have its claim", test: "TestTextForm",
		file: "workload/forms.go",
		old:  `names["AGENT_ID"] = "${CLAIM_ID}"`,
		new:  ``,
	},
}
