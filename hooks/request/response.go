package request

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

// Bounds of what is kept of a response, in bytes.
const (
	maxKept     = 4 << 10
	maxCaptured = 4 << 10
)

// judge returns what a response means for the request of an action.
func (x *Executor) judge(m *message, resp *http.Response) (runner.Result, error) {
	r := m.action
	res := runner.Result{State: hooks.Succeeded, Detail: hooks.Detail{Status: resp.StatusCode}}
	body, err := readBody(resp, r.KeepResponse || len(r.Capture) > 0 || r.ResponseAs != "")
	if r.KeepResponse {
		res.Detail.Response = x.clean(body, maxKept, m.sent...)
	}
	if !isExpected(r.Expect, resp.StatusCode) {
		res.State = hooks.Failed
		res.Err = fmt.Errorf("the response has status %d", resp.StatusCode)
		if mayRetry(hooks.Run{State: res.State, Detail: res.Detail}) {
			res.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		}
		return res, nil
	}
	if err != nil {
		res.Detail.Status = 0 // incomplete: as without a response
		return res, fmt.Errorf("read the response with status %d: %w", resp.StatusCode, err)
	}
	res.Stop = resp.Header.Get(hooks.HeaderStop) == "1"
	x.capture(m, body, &res)
	return res, nil
}

// isExpected reports whether a status is a success.
func isExpected(expect []int, status int) bool {
	if len(expect) == 0 {
		return status >= 200 && status <= 299
	}
	return slices.Contains(expect, status)
}

// body is the start of a response's body.
type body struct {
	text string
	cut  bool // there is more
}

// readBody reads the body to its limit. If it is not needed, it is read for a
// short time only, so that the connection can be used again, and its errors do
// not matter: the status has the result.
func readBody(resp *http.Response, needed bool) (body, error) {
	if !needed {
		timer := time.AfterFunc(maxDrain, func() { resp.Body.Close() })
		defer timer.Stop()
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes+1))
	b := body{text: string(data[:min(len(data), maxResponseBytes)]), cut: len(data) > maxResponseBytes || err != nil}
	if !needed {
		err = nil
	}
	return b, err
}

// capture adds the values of a response to a result. What is not there is a
// warning: the receiver has done what it was asked for.
func (x *Executor) capture(m *message, b body, res *runner.Result) {
	r := m.action
	add := func(name, text string) {
		if res.Captured == nil {
			res.Captured = map[string]string{}
		}
		res.Captured[name] = text
		res.Detail.Captured = append(res.Detail.Captured, name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Capture)) {
		text, err := find(r, name, b)
		if err != nil {
			res.Warnings = append(res.Warnings, x.redactor.Redact(fmt.Sprintf("%s was not captured: %v", name, err)))
			continue
		}
		add(name, storable(x.redactor.Redact(text)))
	}
	if r.ResponseAs != "" {
		add(r.ResponseAs, x.clean(b, maxKept, m.sent...))
	}
}

func find(r hooks.Request, name string, b body) (string, error) {
	path := r.Capture[name]
	if b.cut {
		return "", fmt.Errorf("the response is larger than %d bytes", maxResponseBytes)
	}
	text, ok, err := path.Find([]byte(b.text))
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", fmt.Errorf("the response has no %s", path)
	case len(text) > maxCaptured:
		return "", fmt.Errorf("it is larger than %d bytes", maxCaptured)
	}
	return text, nil
}

// retryAfter returns how long a receiver wants no further attempt: a number of
// seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(header, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), int64(MaxRetryAfter/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return min(max(date.Sub(now), 0), MaxRetryAfter)
	}
	return 0
}

// clean returns text of a receiver without secrets, as it can be stored, cut to
// limit bytes. Of a text that was cut within one of the secrets that were sent,
// also what is left of it is replaced. That is not done for all secrets: the
// receiver could guess them.
func (x *Executor) clean(b body, limit int, sent ...string) string {
	text := b.text
	if b.cut && len(sent) > 0 {
		own := new(Redactor)
		own.Add(sent...)
		text = own.redact(text, true)
	}
	text = storable(x.redactor.Redact(text))
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// storable replaces what databases do not store in text.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\ufffd"), "\ufffd")
}
