package quota

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the units of bytes. Those that end in B after an i are powers of 1024.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseLimits reads limits as flags have them: claims=10,claims-per-minute=60,
// state=10GiB,requests-per-second=50. The value none is no limit. Errors name the
// part.
func ParseLimits(text string) (Limits, error) {
	var l Limits
	if strings.TrimSpace(text) == "" {
		return l, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		if err := l.parsePart(strings.TrimSpace(part)); err != nil {
			return Limits{}, err
		}
	}
	return l, nil
}

func (l *Limits) parsePart(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%w: %.60q: write it as claims=10", ErrInvalid, text)
	}
	for _, k := range kinds {
		if k.part != name {
			continue
		}
		n, err := parseValue(value, k.kind == State)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
		}
		if field := k.field(l); *field == nil {
			*field = &n
			return nil
		}
		return fmt.Errorf("%w: %s: it is given twice", ErrInvalid, name)
	}
	return fmt.Errorf("%w: %.60q is not one of claims, claims-per-minute, state and requests-per-second", ErrInvalid, name)
}

func parseValue(text string, isBytes bool) (int64, error) {
	if text == "none" {
		return Unlimited, nil
	}
	factor, number, form := int64(1), text, "a whole number from 0, or none"
	if isBytes {
		form = "a number of bytes such as 10GiB, or none"
		for _, u := range units {
			if before, ok := strings.CutSuffix(text, u.name); ok {
				factor, number = u.bytes, before
				break
			}
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/factor || !isBytes && n > maxRate {
		return 0, fmt.Errorf("%.40q is not %s", text, form)
	}
	return int64(n) * factor, nil
}

// String returns the text that ParseLimits reads.
func (l Limits) String() string {
	var parts []string
	for _, k := range kinds {
		value := *k.field(&l)
		switch {
		case value == nil:
		case *value < 0:
			parts = append(parts, k.part+"=none")
		default:
			parts = append(parts, k.part+"="+strconv.FormatInt(*value, 10))
		}
	}
	return strings.Join(parts, ",")
}
