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

// maxArgs bounds what one program is started with, in bytes: Linux takes no
// longer argument, and no hook needs more.
const maxArgs = 128 << 10

// argv is a command, one argument an element.
type argv []string

func (v *argv) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.SequenceNode {
		d.fault(n, at, "is "+kindOf(n)+", not a list", `write one argument an element, or ["/bin/sh", "-c", "a line"]`)
		return
	}
	var args []string
	d.readList(n, at, reflect.ValueOf(&args).Elem(), rule{})
	*v = args
	if len(args) == 0 {
		d.fault(n, at, "is empty", "name a program")
		return
	}
	if args[0] == "" && !d.faulty[elementOf(at, 0)] {
		d.fault(resolve(n.Content[0]), elementOf(at, 0), "is empty", "name a program")
	}
	total := 0
	for _, a := range args {
		total += len(a) + 1 // the byte that ends it
	}
	if total > maxArgs {
		d.fault(n, at, fmt.Sprintf("is %d bytes long, more than %d", total, maxArgs), "put what is long into a file")
	}
}

func (v *argv) schema(_ *generator, _ rule) schema {
	return schema{
		"type": "array", "minItems": 1,
		"items":       schema{"type": "string"},
		"prefixItems": []schema{{"type": "string", "minLength": 1}},
	}
}

// probe is the test of a health check: a list that begins with CMD, CMD-SHELL
// or NONE, or a line for the shell.
type probe struct {
	command []string // empty for NONE
}

func (v *probe) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind == yaml.ScalarNode {
		line := d.text(n, at, rule{})
		if line == "" && !d.faulty[at] {
			d.fault(n, at, "is empty", "write a line for /bin/sh")
		}
		v.command = shell(line)
		return
	}
	var list argv
	list.read(d, n, at, rule{})
	if d.faulty[at] || len(list) == 0 {
		return
	}
	form, ok := probes[list[0]]
	if !ok {
		d.fault(resolve(n.Content[0]), elementOf(at, 0), fmt.Sprintf("is %q", short(list[0])), "begin with CMD, CMD-SHELL or NONE")
		return
	}
	if least := form.args; len(list)-1 < least || form.exact && len(list)-1 != least {
		d.fault(n, at, fmt.Sprintf("has %d elements after %s", len(list)-1, list[0]), form.remedy)
		return
	}
	v.command = form.command(list[1:])
}

// probeForm is what may follow the first element of a health check's test.
type probeForm struct {
	args    int
	exact   bool
	remedy  string
	command func(args []string) []string
}

var probes = map[string]probeForm{
	"CMD":       {1, false, "write the program and its arguments after it", slices.Clone[[]string]},
	"CMD-SHELL": {1, true, "write one line for /bin/sh after it", func(args []string) []string { return shell(args[0]) }},
	"NONE":      {0, true, "write nothing after it", func([]string) []string { return nil }},
}

func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

func (v *probe) schema(_ *generator, _ rule) schema {
	list := func(word string, more schema) schema {
		s := schema{"type": "array", "prefixItems": []schema{{"const": word}}}
		for k, v := range more {
			s[k] = v
		}
		return s
	}
	text := schema{"type": "string"}
	return schema{"anyOf": []schema{
		{"type": "string", "minLength": 1},
		{
			"type": "array", "minItems": 2, "items": text,
			"prefixItems": []schema{{"const": "CMD"}, {"type": "string"}},
		},
		list("CMD-SHELL", schema{"minItems": 2, "maxItems": 2, "items": text}),
		list("NONE", schema{"minItems": 1, "maxItems": 1}),
	}}
}

// owner is a user: a number, or text as runtime.Spec.User has it.
type owner string

const ownerPattern = `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`

var ownerForm = regexp.MustCompile(ownerPattern)

// reservedUser is refused, as a user and as a group.
var reservedUser = strconv.Itoa(runtime.ReservedUser)

const ownerRemedy = `write a uid, "uid:gid", a name or "name:group"`

func (v *owner) read(d *decoder, n *yaml.Node, at string, _ rule) {
	const largest = 1<<32 - 2 // the last uid stands for none
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
		var uid int64
		if err := n.Decode(&uid); err != nil || uid < 0 || uid > largest {
			d.fault(n, at, fmt.Sprintf("is %s, which is no uid", short(n.Value)), ownerRemedy)
			return
		}
		*v = owner(fmt.Sprint(uid))
	} else {
		*v = owner(d.text(n, at, rule{pattern: ownerForm, hint: strings.TrimPrefix(ownerRemedy, "write ")}))
	}
	if !d.faulty[at] && slices.Contains(strings.Split(string(*v), ":"), reservedUser) {
		d.fault(n, at, "is "+reservedUser+", the user of hostler's own program in every container", "write another number")
	}
}

func (v *owner) schema(_ *generator, _ rule) schema {
	return schema{"anyOf": []schema{
		{"type": "string", "pattern": ownerPattern},
		{"type": "integer", "minimum": 0, "maximum": int64(1<<32 - 2)},
	}, "not": schema{"anyOf": []schema{
		{"const": runtime.ReservedUser},
		{"type": "string", "pattern": "(^|:)" + reservedUser + "(:|$)"},
	}}}
}

// template is a path of the sink with ${tenantId} in it.
type template string

func (v *template) read(d *decoder, n *yaml.Node, at string, _ rule) {
	s := d.text(n, at, rule{})
	*v = template(s)
	if d.faulty[at] {
		return
	}
	rest := strings.ReplaceAll(s, TenantID, "")
	switch {
	case rest == s:
		d.fault(n, at, "does not hold "+TenantID, "without it tenants would share their state: write tenants/"+TenantID+"/")
	case strings.Contains(rest, "${"):
		d.fault(n, at, "holds another variable than "+TenantID, "write only that one")
	case !clean(strings.TrimSuffix(s, "/")):
		d.fault(n, at, fmt.Sprintf("is %q, which is no relative path", short(s)), "write it without a / in front, // and ..")
	}
}

func (v *template) schema(_ *generator, _ rule) schema {
	return schema{"type": "string", "pattern": `^[^/].*\$\{tenantId\}|^\$\{tenantId\}`}
}
