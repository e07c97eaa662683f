package workload

import (
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"

	"gopkg.in/yaml.v3"
)

// parameterFile describes a parameter.
type parameterFile struct {
	Description string  `yaml:"description" pattern:"^[^\\x00-\\x1f\\x7f]{1,500}$" hint:"1 to 500 characters on one line" doc:"For people: errors of claims quote it."`
	Pattern     string  `yaml:"pattern" doc:"A regular expression (RE2) that the whole value must match. Default: any text."`
	Default     *string `yaml:"default" doc:"The value of a claim that omits it. Without one it is then not set."`
	Required    bool    `yaml:"required" default:"false" doc:"Every claim must give it."`
	Secret      bool    `yaml:"secret" default:"false" doc:"It is stored encrypted and never shown. Its values have at least 8 bytes."`
	MaxLength   int     `yaml:"max_length" default:"4096" min:"1" max:"4096" doc:"The max length of a value in bytes."`
}

// parameterMap has the parameters of a workload by name.
type parameterMap map[string]parameterFile

const (
	parameterPattern = "^[a-z][a-z0-9_]{0,62}$"
	parameterHint    = "lower-case letters, digits and _, beginning with a letter, at most 63"
	// maxParameterPattern bounds a pattern in bytes, and maxPatternSize those of a file
	// together in about the instructions that they compile to, of 100 bytes with their
	// copies: (...){1000} has a thousand times the instructions of what it repeats.
	// maxPatternWork bounds, for a file, the steps of matching the longest values.
	maxParameterPattern = 1024
	maxPatternSize      = 20_000
	maxPatternWork      = 16_000_000
)

var parameterRegexp = regexp.MustCompile(parameterPattern)

func (v *parameterMap) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.MappingNode {
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", "write names with {pattern: …, default: …}")
		return
	}
	*v = parameterMap{}
	size, work := 0, 0
	for _, p := range pairs(n) {
		child := keyOf(at, p.key.Value)
		if !parameterRegexp.MatchString(p.key.Value) {
			d.addError(p.key, child, fmt.Sprintf("%q is not the name of a parameter", truncate(p.key.Value)), "write "+parameterHint)
			continue
		}
		var f parameterFile
		d.read(p.value, child, reflect.ValueOf(&f).Elem(), rule{})
		if re := d.checkPattern(f.Pattern, child+".pattern"); re != nil {
			own := patternSize(re)
			size, work = size+own, work+own*f.MaxLength
			switch {
			case size > maxPatternSize:
				d.addErrorAt(child+".pattern", fmt.Sprintf("is, with the patterns before it, larger than %d when the repetitions are written out", maxPatternSize), "repeat less, and bound the value with max_length")
			case work > maxPatternWork:
				d.addErrorAt(child+".pattern", fmt.Sprintf("takes, with the patterns before it, more than %d steps for the longest values", maxPatternWork), "repeat less, or lower max_length")
			}
		}
		d.checkParameter(f, child)
		(*v)[p.key.Value] = f
	}
	if len(*v) > MaxParameters {
		d.addError(n, at, fmt.Sprintf("has %d parameters, more than %d", len(*v), MaxParameters), "remove some")
	}
}

// checkPattern returns a pattern, or nil if it is not valid or there is none.
func (d *decoder) checkPattern(pattern, at string) *syntax.Regexp {
	if len(pattern) > maxParameterPattern {
		d.addErrorAt(at, fmt.Sprintf("is %d bytes long, more than %d", len(pattern), maxParameterPattern), "shorten it")
		return nil
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		d.addErrorAt(at, "is not a regular expression: "+truncate(err.Error()), "write one of RE2, which has no back references and no lookaround")
		return nil
	}
	return re
}

// checkParameter checks what depends on several keys of a parameter.
func (d *decoder) checkParameter(f parameterFile, at string) {
	if f.Secret && f.MaxLength < MinSecretParameter {
		d.addErrorAt(at+".max_length", fmt.Sprintf("is %d, and the value of a secret has at least %d bytes", f.MaxLength, MinSecretParameter), "raise it")
	}
	if f.Default == nil {
		return
	}
	switch {
	case f.Secret:
		d.addErrorAt(at+".default", "is a secret in the file", "remove it: only claims give secrets")
	case f.Required:
		d.addErrorAt(at+".default", "is never used, because required is true", "keep one of them")
	case !d.invalid[at+".pattern"] && !d.invalid[at+".max_length"] && !d.invalid[at]:
		if problem := f.parameter().check(*f.Default); problem != "" {
			d.addErrorAt(at+".default", problem, "choose another default")
		}
	}
}

// patternSize returns about how many instructions a pattern compiles to. The ranges of
// a class may be copied for each of its repetitions.
func patternSize(re *syntax.Regexp) int {
	n := max(1, len(re.Rune))
	if re.Op == syntax.OpCharClass {
		n = 1 + len(re.Rune)/6
	}
	for _, sub := range re.Sub {
		n += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return n
}

func (v *parameterMap) schema(g *generator, _ rule) schema {
	return schema{
		"type": "object", "maxProperties": MaxParameters, "propertyNames": schema{"pattern": parameterPattern},
		"additionalProperties": g.schemaOf(reflect.TypeFor[parameterFile](), rule{}),
	}
}

// parameters returns the parameters of the workload.
func (v parameterMap) parameters() map[string]Parameter {
	if len(v) == 0 {
		return nil
	}
	all := make(map[string]Parameter, len(v))
	for name, f := range v {
		all[name] = f.parameter()
	}
	return all
}

// parameter returns the parameter of a valid file.
func (f parameterFile) parameter() Parameter {
	p := Parameter{Description: f.Description, Default: f.Default, Required: f.Required, Secret: f.Secret, MaxLength: f.MaxLength}
	if f.Pattern != "" {
		p.Pattern = regexp.MustCompile(anchored(f.Pattern))
	}
	return p
}

// checkKeyFile rejects the file of the key of secret parameters as that of a
// credential.
func (d *decoder) checkKeyFile(name, at string) {
	if name == ParametersKey {
		d.addErrorAt(at, "is the key of secret parameters", "name another file")
	}
}

// checkParameterNames rejects secrets, captures and variables of the environment
// that have the name of the variable of a parameter: one of the two could not be
// used.
func (d *decoder) checkParameterNames(s variableScope) {
	reject := func(name, at string) {
		if p, ok := parameterOf(s.parameters, name); ok {
			d.addErrorAt(at, fmt.Sprintf("%q is the variable of parameter %s", truncate(name), p), "choose another name")
		}
	}
	for _, name := range sortedKeys(s.environment) {
		reject(name, keyOf("environment", name))
	}
	for _, name := range sortedKeys(s.secrets) {
		reject(name, keyOf("secrets", name))
	}
	for _, name := range sortedKeys(s.captured) {
		reject(name, s.captured[name])
	}
}
