package api

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// tagDescriptions are the tags of operations, in the order of the document. A
// tag is the first part of the path.
var tagDescriptions = []huma.Tag{
	{Name: "workloads", Description: "What containers run, declared in a file; tenants' snapshots; hooks."},
	{Name: "pools", Description: "The containers of a workload that wait for claims."},
	{Name: "containers", Description: "Containers, in use or not."},
	{Name: "claims", Description: "Tenants' holds on containers, and what can be done with a claimed one."},
	{Name: "waits", Description: "Claims' waits for signals."},
	{Name: "hook-runs", Description: "Attempts of hooks, with their output."},
	{Name: "deliveries", Description: "Deliveries of events to event hooks."},
	{Name: "events", Description: "The activity log."},
	{Name: "keys", Description: "Keys, tokens and bindings: who may use the API, and for what."},
	{Name: "quotas", Description: "Limits of tenants, keys and workloads."},
	{Name: "doctor", Description: "A diagnosis of the installation."},
	{Name: "server", Description: "The server itself."},
}

const apiDescription = "Pools of warm containers: claim one, use it, release it.\n\n" +
	"Errors are problem details (RFC 9457) with a machine-readable code; each operation has those of its statuses. " +
	"Responses may get further members: ignore what you do not know. Requests may not: unknown parameters and members are refused, and so is " +
	"a parameter that is given twice, unless it is a list.\n\n" +
	"If-Match and If-None-Match have an effect only where an operation lists them, and Idempotency-Key has none. " +
	"A request that can be repeated is described as such."

// describeInfo describes the API as a whole.
func describeInfo(doc *huma.OpenAPI) {
	doc.Info.Description = apiDescription
	doc.Info.License = &huma.License{Name: "Apache 2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"}
	doc.Info.Contact = &huma.Contact{Name: "Hostler", URL: "https://github.com/hostler/hostler"}
	doc.Servers = []*huma.Server{{URL: "/", Description: "The server that this document is from."}}
	doc.Components.Headers = responseHeaders()
	used := map[string]bool{}
	for _, item := range doc.Paths {
		for _, o := range operations(item) {
			used[o.Tags[0]] = true
		}
	}
	doc.Tags = nil
	for _, t := range tagDescriptions {
		if used[t.Name] {
			doc.Tags = append(doc.Tags, &t)
		}
	}
}

// operations returns the operations of a path by method.
func operations(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodHead: item.Head, http.MethodPost: item.Post, http.MethodPut: item.Put,
		http.MethodPatch: item.Patch, http.MethodDelete: item.Delete, http.MethodOptions: item.Options,
	}
	for method, o := range all {
		if o == nil {
			delete(all, method)
		}
	}
	return all
}

// negotiated are headers of requests that a document may not have as parameters:
// the media types of requests and responses have their place.
var negotiated = []string{"Accept", "Content-Type", "Authorization"}

// parameterDescriptions are those of parameters that mean the same everywhere.
var parameterDescriptions = map[string]string{
	"workload":  "Only those of this workload.",
	"container": "Only those of this container.",
	"claim":     "Only those of this claim.",
	"tenant":    "Only those of this tenant.",
	"hook":      "Only those of this hook.",
	"actor":     "Only what this actor caused, such as key:NAME or system.",
	"point":     "Only those about this hook point.",
	"id":        "The id.",
}

// describeParameters finishes the parameters of an operation.
func describeParameters(o *huma.Operation) {
	o.Parameters = slices.DeleteFunc(o.Parameters, func(p *huma.Param) bool {
		return p.In == "header" && slices.Contains(negotiated, p.Name)
	})
	for _, p := range o.Parameters {
		if p.Description == "" {
			p.Description = parameterDescriptions[p.Name]
		}
	}
}
