package api

import (
	"encoding/json"
	"slices"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/wait"
)

// The reasons of failures have the end of what a hook or a health check printed. That
// explains them to authors, operators and the tenant itself. In a tenant's container
// it may be anything of the tenant's, which is not for others, such as viewers.

// hidesPrinted reports whether the reader may not read what was printed in a
// container of that tenant. What was printed before there was a tenant is the
// workload's.
func (v view) hidesPrinted(tenant, workload, claim string) bool {
	return tenant != "" && !v.output.Includes(tenant, workload, claim)
}

func (v view) claim(c claim.Claim) claim.Claim {
	if v.hidesPrinted(c.Tenant, c.Workload, c.ID) {
		c.Reason, c.ReasonChain, c.Warnings = hooks.WithoutOutput(c.Reason), withoutOutputs(c.ReasonChain), withoutOutputs(c.Warnings)
	}
	return c
}

func (v view) container(c pool.Container) pool.Container {
	if v.hidesPrinted(c.Tenant, c.Workload, c.Claim) {
		c.Reason, c.ReasonChain = hooks.WithoutOutput(c.Reason), withoutOutputs(c.ReasonChain)
	}
	return c
}

func (v view) delivery(d delivery.Delivery) delivery.Delivery {
	if v.hidesPrinted(d.Tenant, d.Workload, d.Claim) {
		d.Reason = hooks.WithoutOutput(d.Reason)
	}
	return d
}

func (v view) wait(w wait.Wait) wait.Wait {
	if v.hidesPrinted(w.Tenant, w.Workload, w.Claim) {
		w.Reason = hooks.WithoutOutput(w.Reason)
	}
	return w
}

func (v view) report(r doctor.Report) doctor.Report {
	r.Findings = slices.Clone(r.Findings)
	for i, f := range r.Findings {
		if v.hidesPrinted(f.Tenant, f.Workload, f.Claim) {
			r.Findings[i].Message = hooks.WithoutOutput(f.Message)
		}
	}
	return r
}

// reasons removes what was printed from the texts of an event.
func (v view) reasons(e activity.Event) activity.Event {
	if !v.hidesPrinted(e.Tenant, e.Workload, e.Claim) {
		return e
	}
	e.Message = hooks.WithoutOutput(e.Message)
	if len(e.Data) == 0 {
		return e
	}
	data := activity.NewData(e.Type)
	var all any
	if data == nil {
		return e // what a tenant has published has no reasons
	}
	if json.Unmarshal(e.Data, data) != nil || json.Unmarshal(e.Data, &all) != nil {
		e.Data = nil // of another version: it cannot be known what is in it
		return e
	}
	changed := false
	if all = withoutOutput(all, &changed); !changed {
		return e
	}
	text, err := json.Marshal(all)
	if err != nil || json.Unmarshal(text, data) != nil {
		e.Data = nil
		return e
	}
	e.Data = activity.Data(data)
	return e
}

// withoutOutput applies hooks.WithoutOutput to every text of a JSON value.
func withoutOutput(v any, changed *bool) any {
	switch v := v.(type) {
	case string:
		plain := hooks.WithoutOutput(v)
		*changed = *changed || plain != v
		return plain
	case []any:
		for i := range v {
			v[i] = withoutOutput(v[i], changed)
		}
	case map[string]any:
		for name := range v {
			v[name] = withoutOutput(v[name], changed)
		}
	}
	return v
}

func withoutOutputs(texts []string) []string {
	plain := slices.Clone(texts)
	for i := range plain {
		plain[i] = hooks.WithoutOutput(plain[i])
	}
	return plain
}
