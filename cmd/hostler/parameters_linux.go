package main

import (
	"context"
	"errors"

	"github.com/hostler/hostler/claim/seal"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/runtime"
)

// parameterExecutor decrypts the secret parameters of an attempt, and replaces them
// in its result. The redactor is of the attempt: tenants choose these values, and one
// of the server would replace them in what has nothing to do with their claim.
type parameterExecutor struct {
	runner.Executor
	keys *seal.Keys
}

func (x parameterExecutor) Execute(ctx context.Context, a runner.Attempt) runner.Result {
	a, err := a.Open(x.keys.Open)
	if err != nil {
		return runner.Result{State: hooks.StartFailed, Err: err, Gone: true}
	}
	return redactParameters(x.Executor.Execute(ctx, a), a.Sensitive)
}

// WaitResult returns no output if the parameters cannot be decrypted: it may have
// one.
func (x parameterExecutor) WaitResult(ctx context.Context, a runner.Attempt) runner.Result {
	opened, err := a.Open(x.keys.Open)
	if err == nil {
		return redactParameters(x.Executor.WaitResult(ctx, opened), opened.Sensitive)
	}
	r := x.Executor.WaitResult(ctx, a)
	r.Stdout, r.Stderr, r.Captured, r.Detail.Response = runtime.Output{}, runtime.Output{}, nil, ""
	r.Warnings = append(r.Warnings, "its output is not kept: "+err.Error())
	if r.Err != nil {
		r.Err = redactedError{errors.New("its error is not kept: " + err.Error()), r.Err}
	}
	return r
}

// redactParameters replaces the values in everything of a result that is recorded.
func redactParameters(r runner.Result, values []string) runner.Result {
	if len(values) == 0 {
		return r
	}
	own := new(request.Redactor)
	own.Add(values...)
	r = redactedExecutor{redactor: own}.redact(r)
	r.Detail.Response = own.Redact(r.Detail.Response)
	for name, value := range r.Captured {
		r.Captured[name] = own.Redact(value)
	}
	for i := range r.Warnings {
		r.Warnings[i] = own.Redact(r.Warnings[i])
	}
	return r
}
