package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// DryRun names hooks, and values of their variables.
type DryRun struct {
	On        string            `json:"on"` // a point, the type of an event, or an alias
	Variables map[string]string `json:"variables,omitempty"`
}

// DryRunReport is what hooks would do. A secret in it is •••.
type DryRunReport struct {
	Workload string       `json:"workload"`
	Point    Point        `json:"point,omitempty"`
	Event    EventType    `json:"event,omitempty"`
	Hooks    []DryRunHook `json:"hooks"`
}

// DryRunHook is what one hook would do. One of Request, Command and Builtin is
// not nil unless there is an Error.
type DryRunHook struct {
	Name      string           `json:"name"`
	Action    string           `json:"action"`
	Runs      bool             `json:"runs"`
	Disabled  bool             `json:"disabled,omitempty"`
	Condition string           `json:"condition,omitempty"`
	Holds     bool             `json:"holds"` // the condition
	Variables []DryRunVariable `json:"variables"`
	Timeout   float64          `json:"timeout_ms"`
	Request   *DryRunRequest   `json:"request,omitempty"`
	Command   *DryRunCommand   `json:"command,omitempty"`
	Builtin   *DryRunBuiltin   `json:"builtin,omitempty"`
	Error     string           `json:"error,omitempty"`
}

// DryRunVariable is a variable that a hook names.
type DryRunVariable struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Source    string `json:"source"` // given, sample, environment, secret, captured or nothing
	Untrusted bool   `json:"untrusted,omitempty"`
	Missing   bool   `json:"missing,omitempty"`
}

// DryRunRequest is a request that was not sent.
type DryRunRequest struct {
	Method   string            `json:"method"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
}

// DryRunCommand is a command that was not started.
type DryRunCommand struct {
	Args        []string          `json:"args"`
	Script      string            `json:"script,omitempty"`
	User        string            `json:"user,omitempty"`
	Workdir     string            `json:"workdir,omitempty"`
	Environment map[string]string `json:"environment"`
	Stdin       string            `json:"stdin"`
}

// DryRunBuiltin is a function that was not called.
type DryRunBuiltin struct {
	Name string         `json:"name"`
	With map[string]any `json:"with,omitempty"`
}

// DryRun returns what the hooks of a workload would do at a point or for an
// event. Nothing is sent and nothing runs.
func (c *Client) DryRun(ctx context.Context, workload string, d DryRun) (DryRunReport, error) {
	out, _, err := post[DryRunReport](ctx, c, path("/v1/workloads", workload)+"/hooks/test", d)
	return out, err
}

// LiveTest is the result of TestHooks.
type LiveTest struct {
	Claim string `json:"claim"`
	Point Point  `json:"point"`
	Runs  []Run  `json:"runs"` // one for each hook; their Event is test. and the point
}

// TestHooks runs the hooks of a point once in the container of an active claim.
// The runs are recorded as tests. The claim does not change, but what the hooks do
// they do: the call is made once, also if its response is lost. While another test
// of the claim is running, the error has CodeConflict.
func (c *Client) TestHooks(ctx context.Context, claim string, point Point) (LiveTest, error) {
	body, err := json.Marshal(map[string]Point{"point": point})
	if err != nil {
		return LiveTest{}, fmt.Errorf("write the request: %w", err)
	}
	out, _, err := doJSON[LiveTest](ctx, c, call{
		method: http.MethodPost, path: path("/v1/claims", claim) + "/hooks/test", body: body,
		header: http.Header{"Content-Type": {"application/json"}}, noRetry: true,
	})
	return out, err
}
