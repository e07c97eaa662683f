package main

// variableRows are mutations of package hooks/variables.
var variableRows = []mutation{
	{
		desc: "values in a URL are not percent-encoded", test: "TestURL",
		file: "hooks/variables/url.go",
		old:  `			v.Text = escape(v.Text)`,
		new:  `			v.Text = v.Text + escape("")`,
	},
	{
		desc: "a space in a query is a plus sign", test: "TestValuesKeepThePath",
		file: "hooks/variables/url.go",
		old:  `	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")`,
		new:  `	return url.QueryEscape(text)`,
	},
	{
		desc: "secrets are percent-encoded", test: "TestURL",
		file: "hooks/variables/variables.go",
		old:  `return c == Secret || c == Configured`,
		new:  `return c == Configured`,
	},
	{
		desc: "a value may be . or .. in a path", test: "TestValuesKeepThePath",
		file: "hooks/variables/url.go",
		old:  `		if part == "." || part == ".." {`,
		new:  `		if part == "." && part == ".." {`,
	},
	{
		desc: "dot segments that appear when a server decodes the path are not found", test: "TestValuesKeepThePath",
		file: "hooks/variables/url.go",
		old:  `return r == '/' || r == '\\' }`,
		new:  `return r == '/' && r == '\\' }`,
	},
	{
		desc: "only the value of a segment is checked, not the segment", test: "TestValuesKeepThePath",
		file: "hooks/variables/url.go",
		old:  `unsafeSegment(text[start:checked])`,
		new:  `unsafeSegment(text[max(start, s.start):checked])`,
	},
	{
		desc: "a value may be empty in a URL", test: "TestValuesKeepThePath",
		file: "hooks/variables/url.go",
		old:  `		if !ok || v.Text == "" {`,
		new:  `		if !ok {`,
	},
	{
		desc: "a value completes a percent-encoded character", test: "TestValuesThatAreInsertedAsTheyAre",
		file: "hooks/variables/url.go",
		old:  `text[max(0, s.start-2):s.start], "%")`,
		new:  `text[max(0, s.start-1):s.start], "%")`,
	},
	{
		desc: "the places in a URL are not checked with its values", test: "TestValuesThatAreInsertedAsTheyAre",
		file: "hooks/variables/url.go",
		old: `	if err := checkSpans(text, spans); err != nil {
		return nil, err
	}
`,
		new: `	_ = spans
`,
	},
	{
		desc: "an error has the values of a URL", test: "TestValuesThatAreInsertedAsTheyAre",
		file: "hooks/variables/url.go",
		old: `	case err != nil:
		return nil, errors.New("not a URL")`,
		new: `	case err != nil:
		return nil, err`,
	},
	{
		desc: "an encoded slash becomes a slash next to a character that a URL cannot have", test: "TestValuesThatAreInsertedAsTheyAre",
		file: "hooks/variables/url.go",
		old:  `text[:b.path] + encodeRest(text[b.path:])`,
		new:  `text[:b.path] + encodeRest("") + text[b.path:]`,
	},
	{
		desc: "an untrusted value may be a key of a query", test: "TestCheckURL",
		file: "hooks/variables/url.go",
		old:  `	case i >= b.query && isKey:`,
		new:  `	case i >= b.query && isKey && i < b.path:`,
	},
	{
		desc: "a later key of a query is a value", test: "TestCheckURL",
		file: "hooks/variables/url.go",
		old:  `text[scanned:s.start], "&;="); i`,
		new:  `text[scanned:s.start], "="); i`,
	},
	{
		desc: "values in a JSON string are not escaped", test: "TestBody",
		file: "hooks/variables/body.go",
		old:  `			return escapeJSON(v.Text), nil`,
		new:  `			return v.Text + escapeJSON(""), nil`,
	},
	{
		desc: "an untrusted value may be a key", test: "TestCheckBody",
		file: "hooks/variables/body.go",
		old:  `		s.places[i] = jsonKey`,
		new:  `		s.places[i] = jsonString`,
	},
	{
		desc: "a backslash before a quote does not count", test: "TestCheckBody",
		file: "hooks/variables/body.go",
		old:  `			s.escaped = true`,
		new:  `			s.escaped = false`,
	},
	{
		desc: "untrusted values may stand in a body that only looks like JSON", test: "TestCheckBody",
		file: "hooks/variables/body.go",
		old:  `	if isText || notJSON != nil {`,
		new:  `	if isText {`,
	},
	{
		desc: "a value outside a string may be text", test: "TestValuesOutsideStrings",
		file: "hooks/variables/body.go",
		old:  `			if !json.Valid([]byte(v.Text)) {`,
		new:  `			if v.Text == "" {`,
	},
	{
		desc: "text outside a string is found only when a hook runs", test: "TestCheckBody",
		file: "hooks/variables/body.go",
		old:  `ok && rule.Type == Text {`,
		new:  `ok && rule.Type == "" {`,
	},
	{
		desc: "a value without a class is trusted", test: "TestClassOfZeroValue",
		file: "hooks/variables/variables.go",
		old: `	Untrusted Class = iota
`,
		new: `	Untrusted Class = iota + 9
`,
	},
	{
		desc: "untrusted values may stand in a header", test: "TestHeader",
		file: "hooks/variables/place.go",
		old:  `		"in a header", []Class{Trusted, Secret, Configured},`,
		new:  `		"in a header", []Class{Trusted, Untrusted, Secret, Configured},`,
	},
	{
		desc: "a header may have control characters", test: "TestHeader",
		file: "hooks/variables/template.go",
		old:  `		if indexControl(v.Text) >= 0 {`,
		new:  `		if indexControl(v.Text) > len(v.Text) {`,
	},
	{
		desc: "a secret is in the environment of a process", test: "TestText",
		file: "hooks/variables/template.go",
		old:  `		if !ok || environment.check(p, v.Class) != nil {`,
		new:  `		if !ok {`,
	},
	{
		desc: "a value is expanded again", test: "TestValuesAreNotExpanded",
		file: "hooks/variables/template.go",
		old: `			if text, err = value(b.Len(), p); err != nil {
				return "", err
			}
`,
		new: `			if text, err = value(b.Len(), p); err != nil {
				return "", err
			}
			if again, err := ParseTemplate(text); err == nil && text != p.name {
				if text, err = again.render(value); err != nil {
					return "", err
				}
			}
`,
	},
	{
		desc: "a rendered template has no max length", test: "TestLargeTemplates",
		file: "hooks/variables/template.go",
		old:  `		if b.Len()+len(text) > maxRendered {`,
		new:  `		if b.Len()+len(text) > 100*maxRendered {`,
	},
	{
		desc: "$${ is a variable", test: "TestParseTemplate",
		file: "hooks/variables/template.go",
		old:  `		case strings.HasPrefix(text[i:], "$${"):`,
		new:  `		case strings.HasPrefix(text[i:], "$$${"):`,
	},
	{
		desc: "one comparison of a condition is sufficient", test: "TestCondition",
		file: "hooks/variables/condition.go",
		old: `			return false
		}
	}
	return true
}
`,
		new: `			continue
		}
		return true
	}
	return len(c.terms) == 0
}
`,
	},
	{
		desc: "a condition may compare a secret", test: "TestConditionCheck",
		file: "hooks/variables/place.go",
		old:  `		"in a condition", []Class{Trusted, Untrusted, Configured},`,
		new:  `		"in a condition", []Class{Trusted, Untrusted, Secret, Configured},`,
	},
	{
		desc: "null in a response is captured as text", test: "TestPath",
		file: "hooks/variables/path.go",
		old: `	case nil:
		return "", false, nil
`,
		new: `	case nil:
		return "null", true, nil
`,
	},
}
