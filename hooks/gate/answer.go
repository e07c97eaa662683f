package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"unicode"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

// judge returns what the response to a request means.
func judge(res runner.Result) answer {
	decision, message, err := read(res.Detail.Response)
	isSuccess := res.State == hooks.Succeeded && res.Err == nil && res.Detail.Status >= 200 && res.Detail.Status < http.StatusMultipleChoices
	switch {
	case err == nil && decision == hooks.Deny:
		return answer{state: hooks.Failed, message: message, detail: res.Detail}
	case !isSuccess:
		return undecided(res)
	case err != nil:
		res.State, res.Err = hooks.Failed, fmt.Errorf("read the response: %w", err)
		return undecided(res)
	case decision != hooks.Allow:
		res.State, res.Err = hooks.Failed, errors.New("the decision is neither allow nor deny")
		return undecided(res)
	}
	return answer{isAllowed: true}
}

// read reads the answer of a receiver: a JSON object whose names are exact.
func read(text string) (decision, message string, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return "", "", errors.New("it is not a JSON object of at most 4 KiB")
	}
	if err := json.Unmarshal(fields["decision"], &decision); err != nil {
		return "", "", errors.New("it has no decision")
	}
	if raw, ok := fields["message"]; ok && json.Unmarshal(raw, &message) != nil {
		message = ""
	}
	return decision, message, nil
}

// maxMessage is the max length of what a tenant reads, in characters.
const maxMessage = 500

// clean returns a message on one line, without characters that cannot be seen.
func clean(message string) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(message, "\ufffd") {
		if unicode.IsSpace(r) {
			r = ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			continue
		}
		if n++; n > maxMessage {
			break
		}
		b.WriteRune(r)
	}
	if text := strings.TrimSpace(b.String()); text != "" {
		return text
	}
	return "it is not allowed"
}

// narrow returns the directories that are in those of two hooks, and a refusal if there
// is none. Without earlier ones, those of the answer are all.
func narrow(within []string, a answer) ([]string, answer) {
	if within == nil {
		return a.within, a
	}
	var both []string
	for _, one := range within {
		for _, other := range a.within {
			switch {
			case isBelow(one, other):
				both = append(both, one)
			case isBelow(other, one):
				both = append(both, other)
			}
		}
	}
	if len(both) == 0 {
		return nil, answer{state: hooks.Failed, message: "no directory is allowed by every hook"}
	}
	return both, a
}

// isBelow reports whether a directory is another, or below it. Both are clean.
func isBelow(dir, other string) bool {
	return dir == other || strings.HasPrefix(dir, strings.TrimSuffix(path.Clean(other), "/")+"/")
}
