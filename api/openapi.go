package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// descriptions say, by operation, what a summary cannot.
var descriptions = map[string]string{
	"apply-workload":    "The body is the workload file, in YAML or JSON. A file that changes what containers are made of rolls the pool over to the new revision; one that changes only the pool's bounds does not. Applying the same file again changes nothing.",
	"delete-workload":   "No more containers are made and none may be claimed. 202: containers are still there, and the workload goes with the last one. 204: it is gone.",
	"scale-pool":        "Idle containers above the new bounds are destroyed, claims are not disturbed, and a drained pool fills again.",
	"drain-pool":        "Idle containers are destroyed and none is made until the pool is scaled or the workload applied anew. Claims are not disturbed.",
	"destroy-container": "Its pre_destroy hooks run first. A claimed container is refused unless force is given, which ends the claim.",
	"container-logs":    "The last bytes of what the main process has printed, both streams together.",
	"claim":             "Blocks until the claim is active: the container is there, healthy, and its post_claim hooks have succeeded. Asking again for what one holds answers 200 with the same claim and runs nothing. A caller that leaves loses nothing: ask again.",
	"list-claims":       "Live claims only, unless states are named.",
	"list-containers":   "Those that exist, unless states are named: gone ones are kept as records for a while.",
	"release":           "Runs the pre_release hooks, takes the tenant's state into a snapshot where the workload keeps it, and gives the container back. Releasing twice is 200. When the state cannot be kept the answer is sync_failed: the claim is release_failed and keeps its container with all that is in it, and its release is tried again by the server, at retry_at, and by whoever calls this again. With discard the container is destroyed and nothing that the tenant left in it remains: its state is not taken either, so that a claim which is release_failed ends, and what has changed since the last snapshot is lost.",
	"sync":              "The claim must be active, and the workload must allow it with sync.policy.manual. Another upload of the claim that is under way is waited for. The container goes on meanwhile.",
	"list-snapshots":    "All that are kept, the current one first. The list is read from the sink.",
	"restore-snapshot":  "Makes it the current one, under a new id: the tenant's next claim begins with it. What was current stays in the list. The tenant must hold no claim, for its release would keep its own state over this.",
	"list-runs":         "One item for each attempt, oldest first. All attempts of one run are on one page, which may be a few items longer than its limit for that.",
	"get-run":           "With the whole of what was captured of the output.",
	"events":            "A page of events after a place in the log. With Accept: text/event-stream, or with Accept: application/x-ndjson or follow=true, the answer is a stream that goes on until either side leaves. When retention has deleted events that were asked for, a page has oldest_seq set to the oldest event that is left, and a stream has a line of type log.truncated.",
	"doctor":            "Compares the engine with the database, and looks for what has been on its way for too long, fails again and again, or is about to run out. Each finding has its remedy. It changes nothing, and answers 200 whatever it finds.",
	"healthz":           "Needs no key.",
	"readyz":            "Needs no key.",
}

// op begins the description of a route: its id, "METHOD /path" and summary.
func op(id, route, summary string) huma.Operation {
	method, path, _ := strings.Cut(route, " ")
	tag := "server"
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		tag, _, _ = strings.Cut(rest, "/")
	}
	return huma.Operation{
		OperationID: id, Method: method, Path: path,
		Summary: summary, Description: descriptions[id], Tags: []string{tag},
		// The middleware has read the body already, within its own bounds.
		MaxBodyBytes: -1, BodyReadTimeout: -1,
	}
}

// otherStatuses are the statuses of an operation beside its default one that
// have the same body.
var otherStatuses = map[string]string{"apply-workload": "201", "claim": "201"}

// config is huma's, without what it would serve on its own.
func (a *API) config() huma.Config {
	c := huma.DefaultConfig("Hostler", a.o.Version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema field in answers
	c.RejectUnknownQueryParameters = true
	c.Transformers = []huma.Transformer{a.mapErrors}
	c.Info.Description = "Pools of warm containers: claim one, use it, release it. Errors are problem details (RFC 9457) with a machine-readable code."
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer"},
		"key":    {Type: "apiKey", In: "header", Name: "X-API-Key"},
	}
	c.Security = []map[string][]string{{"bearer": {}}, {"key": {}}, {}}
	return c
}

// documented adds what all operations share.
func (a *API) documented(o huma.Operation) huma.Operation {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	if o.Responses == nil {
		o.Responses = map[string]*huma.Response{}
	}
	o.Responses["default"] = &huma.Response{
		Description: "What went wrong.",
		Content:     map[string]*huma.MediaType{problemType: {Schema: schema}},
	}
	if o.Path == "/healthz" || o.Path == "/readyz" {
		o.Security = []map[string][]string{}
	}
	return o
}

// describe finishes the document once every route is there.
func (a *API) describe() {
	doc := a.huma.OpenAPI()
	// huma describes an error type that no answer has.
	delete(doc.Components.Schemas.Map(), "ErrorModel")
	for _, s := range doc.Components.Schemas.Map() {
		for _, p := range s.Properties {
			if p.Type == huma.TypeArray {
				p.Nullable = false // lists are empty, never null
			}
		}
	}
	for _, item := range doc.Paths {
		for _, o := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if o != nil {
				describeMore(o)
			}
		}
	}
	a.describeBodies(doc)
	var err error
	if a.document, err = json.Marshal(doc); err != nil {
		panic(fmt.Sprintf("api: the OpenAPI document cannot be written: %v", err))
	}
}

func describeMore(o *huma.Operation) {
	if status, ok := otherStatuses[o.OperationID]; ok {
		same := *o.Responses["200"]
		same.Description = http.StatusText(http.StatusCreated)
		o.Responses[status] = &same
	}
}

// describeBodies sets what huma cannot know: bodies that are no JSON object of
// ours, and streams.
func (a *API) describeBodies(doc *huma.OpenAPI) {
	text := &huma.Schema{Type: huma.TypeString}
	file := map[string]*huma.MediaType{}
	for _, t := range workloadTypes {
		file[t] = &huma.MediaType{Schema: &huma.Schema{Description: "A workload file; `hostler schema` prints its JSON Schema."}, Example: exampleWorkload}
	}
	doc.Paths["/v1/workloads/{id}"].Put.RequestBody = &huma.RequestBody{Required: true, Content: file}

	// huma has described the body under 200, which this never answers.
	deletion := doc.Paths["/v1/workloads/{id}"].Delete.Responses
	deletion["202"], deletion["204"] = deletion["200"], &huma.Response{Description: "It is gone."}
	deletion["202"].Description = "It goes when its last container is gone."
	delete(deletion, "200")

	logs := doc.Paths["/v1/containers/{id}/logs"].Get.Responses["200"]
	logs.Content = map[string]*huma.MediaType{"text/plain": {Schema: text}}

	page := doc.Components.Schemas.Schema(reflect.TypeFor[EventPage](), true, "EventPage")
	event := doc.Components.Schemas.Schema(reflect.TypeFor[FollowedEvent](), true, "FollowedEvent")
	doc.Paths["/v1/events"].Get.Responses["200"].Content = map[string]*huma.MediaType{
		"application/json": {Schema: page},
		typeSSE:            {Schema: text},
		typeNDJSON:         {Schema: event},
	}
	for _, s := range []string{"EventPage", "FollowedEvent"} {
		for _, p := range doc.Components.Schemas.Map()[s].Properties {
			p.Nullable = false
		}
	}
}

func (a *API) openapi(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(a.document) //nolint:errcheck // the client is gone
}
