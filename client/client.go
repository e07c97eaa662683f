// Package client speaks to Hostler's API.
//
// It promises that a call whose connection breaks is made again where that is
// safe; that an answer which is an error is an *Error with the server's code;
// and that following the activity log neither misses an event nor shows one
// twice, however often the connection breaks.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/internal/backoff"
)

// Client speaks to one server. It may be used by many goroutines at once.
type Client struct {
	base       string
	name       string // base as it was given, for errors
	key        string
	credential func(context.Context) (string, error)
	tls        *tls.Config
	dial       func(ctx context.Context, network, address string) (net.Conn, error) // nil: the default
	http       *http.Client
}

// New returns a client of the server at base, such as http://127.0.0.1:8700, or
// unix:/run/hostler/socket. The key may be empty.
func New(base, key string) (*Client, error) {
	return NewWithOptions(base, Options{Key: key})
}

// Calls whose connection breaks are made again this often. Nearly each call of
// this API may be: asking twice for a claim, a release or a change of a pool
// does what asking once does.
const maxAttempts = 3

// retries is how calls and lost connections are retried.
var retries = backoff.Policy{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.2}

// call is one request.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
	content      io.Reader // in place of body, for calls that are made once
	// noRetry reports whether the call is made once only: a second one might
	// undo what another program has changed since, or run hooks again.
	noRetry bool
}

// do makes the call and returns a response that is not an error.
func (c *Client) do(ctx context.Context, req call) (*http.Response, error) {
	if slices.ContainsFunc(strings.Split(req.path, "/"), isDots) {
		return nil, &Error{Status: http.StatusUnprocessableEntity, Code: CodeInvalidRequest, Detail: "a part of the path, between slashes, is . or ..: write the path that it leads to"}
	}
	wait := retries.Retries()
	for try := 1; ; try++ {
		resp, err := c.doOnce(ctx, req)
		if err == nil {
			return resp, nil
		}
		if errors.Is(err, errRedirect) || errors.Is(err, errCredential) {
			return nil, err
		}
		if _, answered := err.(*Error); answered || req.noRetry || try == maxAttempts || ctx.Err() != nil { //nolint:errorlint // once wraps none
			return nil, err
		}
		if err := wait.Sleep(ctx); err != nil {
			return nil, err
		}
	}
}

// isDots reports whether a part of a path is one that programs on the way to the server
// may resolve, so that another path would be requested.
func isDots(part string) bool { return part == "." || part == ".." }

func (c *Client) doOnce(ctx context.Context, req call) (*http.Response, error) {
	target := c.base + req.path
	if len(req.query) > 0 {
		target += "?" + req.query.Encode()
	}
	content := io.Reader(bytes.NewReader(req.body))
	if req.content != nil {
		content = io.NopCloser(req.content) // the caller closes it
	}
	r, err := http.NewRequestWithContext(ctx, req.method, target, content)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	for k, v := range req.header {
		r.Header[k] = v
	}
	if err := c.authorize(r); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the method and the address are no news to the caller
		}
		return nil, fmt.Errorf("%w from the server at %s: %w", ErrNoResponse, c.name, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	return nil, decodeProblem(resp)
}

// decodeProblem reads an answer that is an error, also one of a proxy's.
func decodeProblem(resp *http.Response) *Error {
	e := &Error{}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err == nil && json.Unmarshal(text, e) == nil && e.Code != "" {
		return e
	}
	return &Error{
		Status: resp.StatusCode, Title: resp.Status, RetryAfter: e.RetryAfter,
		Detail: "the server answered " + resp.Status + ", and not as Hostler does",
	}
}

// doJSON makes a call and decodes its answer.
func doJSON[T any](ctx context.Context, c *Client, req call) (T, int, error) {
	var out T
	resp, err := c.do(ctx, req)
	if err != nil {
		return out, 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode == http.StatusNoContent {
		return out, resp.StatusCode, nil
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, 0, fmt.Errorf("read the answer of %s: %w", c.name, err)
	}
	return out, resp.StatusCode, nil
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	out, _, err := doJSON[T](ctx, c, call{method: http.MethodGet, path: path})
	return out, err
}

// post sends v as JSON.
func post[T any](ctx context.Context, c *Client, path string, v any) (T, int, error) {
	body, err := encode(v)
	if err != nil {
		var none T
		return none, 0, err
	}
	return doJSON[T](ctx, c, call{
		method: http.MethodPost, path: path, body: body,
		header: http.Header{"Content-Type": {"application/json"}},
	})
}

func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return body, nil
}

// listAll reads a list page by page, to its end or until there are limit items.
func listAll[T any](ctx context.Context, c *Client, path string, query url.Values, limit int) ([]T, error) {
	items := []T{}
	for {
		page, _, err := doJSON[page[T]](ctx, c, call{method: http.MethodGet, path: path, query: query})
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if limit > 0 && len(items) >= limit {
			return items[:limit], nil
		}
		if page.Next == "" {
			return items, nil
		}
		query.Set("after", page.Next)
	}
}

// page is one page of a list.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"` // where the next page begins; empty at the end
}

// values makes a query of names and values, without the empty ones.
func values(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}
