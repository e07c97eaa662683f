package variables

import "slices"

// place is where a variable stands in a template.
type place int

const (
	environment place = iota
	header
	authority   // and the scheme
	pathOrValue // of the query
	queryKey
	fragment
	jsonString
	jsonKey
	jsonValue // outside a string
	plainBody
	condition
)

// placeRule describes a place.
type placeRule struct {
	name    string
	classes []Class // that may stand there
	hint    string  // what to write instead
}

var places = map[place]placeRule{
	environment: {
		"in an environment", []Class{Trusted, Untrusted, Configured},
		"the tenant can read it; use an http or webhook action",
	},
	header: {
		"in a header", []Class{Trusted, Secret, Configured},
		"write it in a JSON string of the body",
	},
	authority: {
		"in the scheme or host of a URL", []Class{Secret, Configured},
		"only secrets and the workload's environment may, with a slash after them",
	},
	pathOrValue: {
		"in a URL", []Class{Trusted, Untrusted, Secret, Configured}, "",
	},
	queryKey: {
		"in a key of a URL's query", []Class{Trusted, Secret, Configured},
		"write it in a value, such as ?q=${NAME}",
	},
	fragment: {
		"in the fragment of a URL", nil,
		"a fragment is not sent; write %23 for a literal #",
	},
	jsonString: {
		"in a JSON string", []Class{Trusted, Untrusted, Secret, Configured}, "",
	},
	jsonKey: {
		"in the key of a JSON object", []Class{Trusted, Secret, Configured},
		"write it in the value",
	},
	jsonValue: {
		"outside a string of a JSON body", []Class{Trusted, Secret, Configured},
		"put it in quotes",
	},
	condition: {
		"in a condition", []Class{Trusted, Untrusted, Configured},
		"compare a value that may be recorded",
	},
	plainBody: {
		"in a body that is not JSON", []Class{Trusted, Secret, Configured},
		"write a JSON body with the variable in a string",
	},
}

// classNames describe values of a class; empty: no reason to give.
var classNames = map[Class]string{
	Untrusted: "is written by a tenant and ",
	Secret:    "is a secret and ",
}

// check returns an error if a value of class c may not stand at p.
func (p place) check(v part, c Class) error {
	rule := places[p]
	if slices.Contains(rule.classes, c) {
		return nil
	}
	return &NameError{Name: v.name, Offset: v.offset, Message: classNames[c] + "may not stand " + rule.name + ": " + rule.hint}
}
