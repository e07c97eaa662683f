package workload

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/docker/go-units"
	"gopkg.in/yaml.v3"
)

// duration is 500ms, 30s, 5m, 1h, 1m30s, or a whole number of milliseconds.
type duration time.Duration

const durationPattern = `^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`

var durationRegexp = regexp.MustCompile(durationPattern)

const durationHint = "write it like 500ms, 30s, 5m, 1h or 1m30s, or as a whole number of milliseconds"

// parseDuration parses a duration with units.
func parseDuration(s string) (time.Duration, error) {
	if s == "" || !durationRegexp.MatchString(s) {
		return 0, fmt.Errorf("%q is not a duration", truncate(s))
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is too long", truncate(s))
	}
	return v, nil
}

// milliseconds converts a duration that is a number.
func milliseconds(ms int64) (time.Duration, error) {
	if ms < 0 {
		return 0, errors.New("less than 0")
	}
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, fmt.Errorf("%d ms is too long", ms)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (v *duration) read(d *decoder, n *yaml.Node, at string, r rule) {
	var got time.Duration
	var err error
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int":
		var ms int64
		if err = n.Decode(&ms); err == nil {
			got, err = milliseconds(ms)
		}
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		got, err = parseDuration(n.Value)
	default:
		err = errors.New(kindOf(n))
	}
	if err != nil {
		d.addError(n, at, "is not a valid duration: "+truncate(err.Error()), durationHint)
		return
	}
	*v = duration(got)
	if n.ShortTag() == "!!int" && got != 0 && n.Tag != "" {
		d.addAdvice(n, at, fmt.Sprintf("is %s: a number without a unit is milliseconds", got), fmt.Sprintf("write %s, or %s if seconds are meant", got, n.Value+"s"))
	}
	if minimum, err := parseDuration(r.min); err == nil && got < minimum {
		d.addError(n, at, fmt.Sprintf("is %s, less than %s", got, r.min), durationHint)
	}
	if maximum, err := parseDuration(r.max); err == nil && got > maximum {
		d.addError(n, at, fmt.Sprintf("is %s, more than %s", got, r.max), "lower it")
	}
}

func (v *duration) schema(_ *generator, r rule) schema {
	number := schema{"type": "integer", "minimum": 0}
	if minimum, err := parseDuration(r.min); err == nil {
		number["minimum"] = minimum.Milliseconds()
	}
	if maximum, err := parseDuration(r.max); err == nil {
		number["maximum"] = maximum.Milliseconds()
	}
	return schema{"anyOf": []schema{
		{"type": "string", "minLength": 1, "pattern": durationPattern, patternMessage: durationHint}, number,
	}}
}

// size is 512m, 1g, 1G, 1.5g, or a whole number of bytes.
type size int64

const sizeHint = "write it like 512m or 1g, or as a whole number of bytes"

const sizePattern = `^[0-9]{1,15}(\.[0-9]{1,3})?[kKmMgGtT]?([iI]?[bB])?$`

var sizeRegexp = regexp.MustCompile(sizePattern)

// parseSize parses a size. A unit is a power of 1024, as in Docker: 1g is
// 1073741824.
func parseSize(s string) (int64, error) {
	if !sizeRegexp.MatchString(s) {
		return 0, fmt.Errorf("%q is not a size", truncate(s))
	}
	v, err := units.RAMInBytes(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size", truncate(s))
	}
	const maximum = 1 << 60 // the product is a float: much larger values overflow
	if v < 0 || v > maximum {
		return 0, fmt.Errorf("%q is too large", truncate(s))
	}
	return v, nil
}

func (v *size) read(d *decoder, n *yaml.Node, at string, r rule) {
	tag := n.ShortTag()
	err := errors.New(kindOf(n))
	var got int64
	if n.Kind == yaml.ScalarNode && (tag == "!!str" || tag == "!!int") {
		got, err = parseSize(n.Value)
	}
	if err != nil {
		d.addError(n, at, "is not a valid size: "+truncate(err.Error()), sizeHint)
		return
	}
	*v = size(got)
	if minimum, err := parseSize(r.min); err == nil && got < minimum {
		d.addError(n, at, fmt.Sprintf("is %s, less than %s", n.Value, r.min), "raise it")
	}
	if maximum, err := parseSize(r.max); err == nil && got > maximum {
		d.addError(n, at, fmt.Sprintf("is %s, more than %s", n.Value, r.max), "lower it")
	}
}

func (v *size) schema(_ *generator, r rule) schema {
	number := schema{"type": "integer"}
	if minimum, err := parseSize(r.min); err == nil {
		number["minimum"] = minimum
	}
	if maximum, err := parseSize(r.max); err == nil {
		number["maximum"] = maximum
	}
	return schema{"anyOf": []schema{{"type": "string", "pattern": sizePattern, patternMessage: sizeHint}, number}}
}

// cores is a number of processor cores, 0.5 or "2".
type cores float64

const coresHint = `write it like 0.5 or "2"`

const coresPattern = `^[0-9]{1,6}(\.[0-9]{1,6})?$`

var coresRegexp = regexp.MustCompile(coresPattern)

func (v *cores) read(d *decoder, n *yaml.Node, at string, r rule) {
	if n.Kind != yaml.ScalarNode || !coresRegexp.MatchString(n.Value) {
		d.addError(n, at, "is not a number of cores", coresHint)
		return
	}
	got, _ := strconv.ParseFloat(n.Value, 64) // the pattern ensures that it is valid
	*v = cores(got)
	if minimum, err := strconv.ParseFloat(r.min, 64); err == nil && got < minimum {
		d.addError(n, at, fmt.Sprintf("is %s, less than %s", n.Value, r.min), "raise it")
	}
	if maximum, err := strconv.ParseFloat(r.max, 64); err == nil && got > maximum {
		d.addError(n, at, fmt.Sprintf("is %s, more than %s", n.Value, r.max), "lower it")
	}
}

func (v *cores) schema(_ *generator, r rule) schema {
	number := schema{"type": "number"}
	if minimum, err := strconv.ParseFloat(r.min, 64); err == nil {
		number["minimum"] = minimum
	}
	if maximum, err := strconv.ParseFloat(r.max, 64); err == nil {
		number["maximum"] = maximum
	}
	return schema{"anyOf": []schema{{"type": "string", "pattern": coresPattern, patternMessage: coresHint}, number}}
}
