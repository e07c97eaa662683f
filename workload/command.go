package workload

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/runtime"
)

// maxArgs limits the size of a command in bytes: Linux does not accept a longer
// argument.
const maxArgs = 128 << 10

// argv is a command, one argument per element.
type argv []string

func (v *argv) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.SequenceNode {
		d.addError(n, at, "is "+kindOf(n)+", not a list", `write one argument per element, or ["/bin/sh", "-c", "a line"]`)
		return
	}
	var args []string
	d.readList(n, at, reflect.ValueOf(&args).Elem(), rule{})
	*v = args
	if len(args) == 0 {
		d.addError(n, at, "is empty", "name a program")
		return
	}
	if args[0] == "" && !d.invalid[elementOf(at, 0)] {
		d.addError(resolve(n.Content[0]), elementOf(at, 0), "is empty", "name a program")
	}
	total := 0
	for _, a := range args {
		total += len(a) + 1 // the byte that ends it
	}
	if total > maxArgs {
		d.addError(n, at, fmt.Sprintf("is %d bytes long, more than %d", total, maxArgs), "put long arguments into a file")
	}
}

func (v *argv) schema(_ *generator, _ rule) schema {
	return schema{"type": "array", "minItems": 1, "items": schema{"type": "string"}, "contains": schema{"type": "string", "minLength": 1}}
}

// healthTest is the test of a health check: a list that begins with CMD,
// CMD-SHELL or NONE, or a line for the shell.
type healthTest struct {
	command []string // empty for NONE
}

func (v *healthTest) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind == yaml.ScalarNode {
		line := d.text(n, at, rule{})
		if line == "" && !d.invalid[at] {
			d.addError(n, at, "is empty", "write a line for /bin/sh")
		}
		v.command = shell(line)
		return
	}
	var list argv
	list.read(d, n, at, rule{})
	if d.invalid[at] || len(list) == 0 {
		return
	}
	form, ok := healthTestForms[list[0]]
	if !ok {
		d.addError(resolve(n.Content[0]), elementOf(at, 0), fmt.Sprintf("is %q", truncate(list[0])), "begin with CMD, CMD-SHELL or NONE")
		return
	}
	if minimum := form.args; len(list)-1 < minimum || form.exact && len(list)-1 != minimum {
		d.addError(n, at, fmt.Sprintf("has %d elements after %s", len(list)-1, list[0]), form.hint)
		return
	}
	v.command = form.command(list[1:])
}

// healthTestForm describes what must follow the first element of a test.
type healthTestForm struct {
	args    int
	exact   bool
	hint    string
	command func(args []string) []string
}

var healthTestForms = map[string]healthTestForm{
	"CMD":       {1, false, "write the program and its arguments after it", slices.Clone[[]string]},
	"CMD-SHELL": {1, true, "write one line for /bin/sh after it", func(args []string) []string { return shell(args[0]) }},
	"NONE":      {0, true, "write nothing after it", func([]string) []string { return nil }},
}

func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

func (v *healthTest) schema(_ *generator, _ rule) schema {
	// Strict validators accept prefixItems only for lists of that length.
	text := schema{"type": "string"}
	return schema{"anyOf": []schema{
		{"type": "string", "minLength": 1},
		{"type": "array", "minItems": 2, "items": text, "contains": schema{"const": "CMD"}},
		{"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": []schema{{"const": "CMD-SHELL"}, text}},
		{"type": "array", "minItems": 1, "maxItems": 1, "prefixItems": []schema{{"const": "NONE"}}},
	}}
}

// userSpec is a user: a number, or text in the form of runtime.Spec.User.
type userSpec string

const userPattern = `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`

var userRegexp = regexp.MustCompile(userPattern)

// reservedUser is rejected, as a user and as a group.
var reservedUser = strconv.Itoa(runtime.ReservedUser)

const userHint = `write a uid, "uid:gid", a name or "name:group"`

func (v *userSpec) read(d *decoder, n *yaml.Node, at string, _ rule) {
	const maxUID = 1<<32 - 2 // the largest value means no uid
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
		var uid int64
		if err := n.Decode(&uid); err != nil || uid < 0 || uid > maxUID {
			d.addError(n, at, fmt.Sprintf("is %s, which is not a uid", truncate(n.Value)), userHint)
			return
		}
		*v = userSpec(fmt.Sprint(uid))
	} else {
		*v = userSpec(d.text(n, at, rule{pattern: userRegexp, hint: strings.TrimPrefix(userHint, "write ")}))
	}
	if !d.invalid[at] && slices.Contains(strings.Split(string(*v), ":"), reservedUser) {
		d.addError(n, at, "is "+reservedUser+", which is reserved for Hostler's shim", "write another number")
	}
}

func (v *userSpec) schema(_ *generator, _ rule) schema {
	return schema{"anyOf": []schema{
		{"type": "string", "pattern": userPattern, patternMessage: userHint},
		{"type": "integer", "minimum": 0, "maximum": int64(1<<32 - 2)},
	}, "not": schema{"anyOf": []schema{
		{"const": runtime.ReservedUser},
		{"type": "string", "pattern": "(^|:)" + reservedUser + "(:|$)"},
	}}}
}

// prefixTemplate is a path in the sink that contains ${tenantId}.
type prefixTemplate string

func (v *prefixTemplate) read(d *decoder, n *yaml.Node, at string, _ rule) {
	s := d.text(n, at, rule{})
	*v = prefixTemplate(s)
	if d.invalid[at] {
		return
	}
	rest := strings.ReplaceAll(s, TenantPlaceholder, "")
	switch {
	case rest == s:
		d.addError(n, at, "does not contain "+TenantPlaceholder, "without it tenants would share their state: write tenants/"+TenantPlaceholder+"/")
	case strings.Contains(rest, "${"):
		d.addError(n, at, "contains another variable than "+TenantPlaceholder, "write only that one")
	case !isCleanRelPath(strings.TrimSuffix(s, "/")):
		d.addError(n, at, fmt.Sprintf("is %q, which is not a clean relative path", truncate(s)), "write it without a leading /, // and ..")
	}
}

func (v *prefixTemplate) schema(_ *generator, _ rule) schema {
	return schema{"type": "string", "pattern": `^[^/].*\$\{tenantId\}|^\$\{tenantId\}`, patternMessage: "write a relative path with ${tenantId}"}
}
