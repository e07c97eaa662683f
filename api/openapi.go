package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// descriptions are the descriptions of operations, in addition to their
// summaries.
var descriptions = map[string]string{
	"apply-workload":    "The body is the workload file, in YAML or JSON. A file that changes how containers are created rolls the pool over to the new revision; one that changes only the pool's bounds does not. Applying the same file again changes nothing.",
	"delete-workload":   "No more containers are created and none may be claimed. 202: containers still exist, and the workload is deleted with the last one. 204: it is deleted.",
	"scale-pool":        "Idle containers above the new bounds are destroyed, claims are not affected, and a drained pool fills again.",
	"drain-pool":        "Idle containers are destroyed and none is created until the pool is scaled or the workload is applied again. Claims are not affected.",
	"destroy-container": "Its pre_destroy hooks run first. A claimed container is refused unless force is given, which ends the claim.",
	"container-logs":    "The last bytes of the main process's output, both streams together.",
	"claim":             "Blocks until the claim is active: the container exists, is healthy, and its post_claim hooks have succeeded. A repeated request of a tenant that has a claim returns 200 with the same claim and runs nothing. A caller that disconnects loses nothing: repeat the request.",
	"list-claims":       "Live claims only, unless states are given.",
	"list-containers":   "Existing containers only, unless states are given. Records of destroyed ones are kept until retention removes them.",
	"release":           "Runs the pre_release hooks, uploads the tenant's state as a snapshot if the workload has sync, and returns the container. Releasing twice is 200. When the upload fails the response is sync_failed: the claim is release_failed and keeps its container with its contents. The server retries the release at retry_at, and every repeated call retries it at once. With discard the container is destroyed and its state is not uploaded: a claim that is release_failed ends, and changes since the last snapshot are lost.",
	"sync":              "The claim must be active, and the workload must allow it with sync.policy.manual. It waits for another upload of the claim that is in progress. The container keeps running.",
	"put-memory":        "The body is the value: any JSON of at most 64 KiB. The claim must be active, or one of its hooks must run at a point. 201: there was no value. With a condition that is not met the response is 412 version_conflict, with current_version. A claim may put and delete 50 values at once and then 20 a second.",
	"get-memory":        "The body is the value as it was put, without insignificant space.",
	"delete-memory":     "Without a condition it succeeds if there is no value.",
	"list-memory":       "Ordered by the bytes of the keys, without the values.",
	"get-file":          "The path is absolute in the container, without its first slash: /v1/claims/c1/files/etc/hosts is /etc/hosts, and an empty path is /. The response is the content; with stat=true a description, without following a link; with list=true a page of the entries of a directory; with archive=true, or Accept: application/x-tar, a tar of a directory or file. What may be read is what the container's user may read. A response that fails is aborted.",
	"put-file":          "The body is the content, of any size. It replaces the file when all of it has arrived; until then, and when the body is incomplete, the old one stays. Missing directories are created. With archive=true, or Content-Type: application/x-tar, the body is unpacked into the directory; what was unpacked before an error stays. 201: there was no such file.",
	"delete-file":       "A file, a link or an empty directory; with recursive=true also a directory with all that is in it.",
	"list-snapshots":    "All kept snapshots, the current one first. The list is read from the sink.",
	"restore-snapshot":  "Makes it the current one, under a new id: the tenant's next claim begins with it. The previous one stays in the list. The tenant must have no claim, because its release would upload its own state over this one.",
	"verify-snapshot":   "Reads all of a snapshot, or all that are kept with the id all, and compares each object with its checksum. Damage is no error: the result lists it. The response is JSON lines: progress about once a second, and one with the result, or with an error, at the end. An error before the first line has its status.",
	"export-snapshot":   "A tar in the pax format of a snapshot, or the current one with the id current. Names are those in the container without the first slash. What belongs to the container's user belongs to 0:0 in the tar, and holes are zeros. A response that fails is aborted, and its tar has no end.",
	"import-snapshot":   "The body is a tar of any size up to the workload's limits, whose names are below the paths of its mappings; . and / at the beginning are ignored. It becomes the tenant's current snapshot: each mapping that uploads has what the tar has for it, and nothing else. Patterns apply, of entries with one name the last one counts, hard links become files, and devices and pipes are skipped. The tenant must have no claim. Nothing changes when the tar is refused or incomplete.",
	"list-runs":         "One item for each attempt, oldest first. All attempts of one run are on one page, which may be a few items longer than its limit for that.",
	"get-run":           "With the whole captured output.",
	"events":            "A page of events after a sequence number. Its next is a number at the end of the log too: there is no more when it is the same as after. When retention has deleted requested events, oldest_seq is the oldest remaining event. With Accept: text/event-stream, or with Accept: application/x-ndjson or follow=true, the response is the stream of /v1/events/stream.",
	"follow-events":     "A stream that continues until either side disconnects, by default of the events from now on: JSON lines, with empty ones as heartbeats, or server-sent events with Accept: text/event-stream. When retention has deleted requested events, it has a line of type log.truncated. When its credential is revoked or expires, the last line is of type log.ended.",
	"list-workloads":    "In the order of their ids, with the files as they were applied.",
	"get-workload":      "With the file as it was applied.",
	"list-pools":        "One for each workload, with the numbers of containers by state and the state of the fill loop.",
	"get-pool":          "With the numbers of containers by state, the state of the fill loop and its last error.",
	"get-container":     "Also one that was destroyed, until retention removes its record.",
	"get-claim":         "Also one that has ended, until retention removes its record.",
	"extend":            "The end of its lifetime moves by the given duration. A repeated request moves it again: read expires_at if a response was lost. A claim without a lifetime cannot be extended.",
	"touch":             "Its use is recorded, for pools with a claim_idle_ttl; idle_expires_at is when it is released without further use. A claim that is not active is claim_not_active (409): its container is not the tenant's, and another touch changes nothing.",
	"test-claim":        "In the container of an active claim, one test at a time. The runs are marked as a test.",
	"wait":              "201: a new wait. 200: one of the name is open, or the request is a repeated one. With the parameter wait, the response comes when the wait has ended, or as it is then.",
	"get-wait":          "With the parameter wait, the response comes when the wait has ended, or as it is then.",
	"list-waits":        "Open ones and ended ones, without their contexts and data.",
	"signal":            "A wait gets it, or it is kept for the claim's next wait of the name.",
	"list-deliveries":   "Those of all event hooks, unless a filter is given.",
	"get-delivery":      "With its last error, and when it is attempted next.",
	"retry-delivery":    "At once, whatever its state, if its event is still in the log.",
	"discard-delivery":  "The lane continues with the next delivery.",
	"replay-events":     "Adds deliveries of events that are in the log, in their order.",
	"test-hooks":        "Variables with their sources, conditions, requests and commands. Nothing is sent, nothing runs, and secrets are hidden.",
	"metrics":           "Of the server and of its pools.",
	"openapi":           "In OpenAPI 3.1.",
	"publish-event":     "The claim must be active or releasing. The event is marked as untrusted: readers can only rely on its claim, container, workload, tenant and time. A claim, and a tenant with all of its claims, can publish 50 events or 320 KiB at once, and then 5 events and 32 KiB a second; beyond that the response is rate_limited, with the number of events that were dropped. The newest 1,000 events of a claim are kept, for 7 days.",
	"set-activity":      "An event agent.activity_changed is recorded if the activity or the tool has changed; it counts as one that is published. thinking, executing and a change of the activity count as use of the claim, where the pool has a claim_idle_ttl. A repeated report of another activity does not.",
	"list-quotas":       "Those of their own, by level and name: the server's defaults apply to all others.",
	"get-quota":         "The limits that apply, those of its own, and what it uses. A tenant may read its own.",
	"set-quota":         "Replaces the limits of its own, which win over the server's defaults. One that is omitted is the default, and -1 is no limit. The event is quota.changed.",
	"delete-quota":      "The server's defaults apply to it. The response is what applies. The event is quota.removed.",
	"doctor":            "Compares the engine with the database, and finds operations that take too long or fail repeatedly, and resources that are about to run out. Each finding has a hint. It changes nothing, and returns 200 whatever the findings.",
	"healthz":           "Needs no key.",
	"readyz":            "Needs no key.",
}

// op returns the operation of a route: its id, "METHOD /path" and summary.
func op(id, route, summary string) huma.Operation {
	method, path, _ := strings.Cut(route, " ")
	tag := "server"
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		tag, _, _ = strings.Cut(rest, "/")
		tag = cmp.Or(keyTags[tag], tag)
	}
	return huma.Operation{
		OperationID: id, Method: method, Path: path,
		Summary: summary, Description: cmp.Or(descriptions[id], commandDescriptions[id], keyDescriptions[id]), Tags: []string{tag},
		// The middleware has already read the body, within its own limits.
		MaxBodyBytes: -1, BodyReadTimeout: -1,
	}
}

// otherStatuses are the additional statuses of an operation that have the same
// body as its default one.
var otherStatuses = map[string]string{"apply-workload": "201", "claim": "201", "put-memory": "201", "put-file": "201", "put-binding": "201"}

// config returns huma's configuration, without the routes that it would serve
// itself.
func (a *API) config() huma.Config {
	c := huma.DefaultConfig("Hostler", a.o.Version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema field in answers
	c.RejectUnknownQueryParameters = true
	c.Transformers = []huma.Transformer{a.mapErrors}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer"},
		"key":    {Type: "apiKey", In: "header", Name: "X-API-Key"},
	}
	c.Security = []map[string][]string{{"bearer": {}}, {"key": {}}, {}}
	return c
}

// documented adds the parts that all operations share.
func (a *API) documented(o huma.Operation) huma.Operation {
	rule, ok := rules[o.OperationID]
	if !ok {
		panic("api: no rule for the operation " + o.OperationID)
	}
	a.rules[o.Method+" "+o.Path], a.operations[o.Method+" "+o.Path] = rule, o.OperationID
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	if o.Responses == nil {
		o.Responses = map[string]*huma.Response{}
	}
	o.Responses["default"] = &huma.Response{
		Description: "What went wrong.",
		Content:     map[string]*huma.MediaType{problemType: {Schema: schema}},
	}
	if isProbe(o.Path) {
		o.Security = []map[string][]string{}
	}
	return o
}

// describe finishes the document once every route is there.
func (a *API) describe() {
	doc := a.huma.OpenAPI()
	registerData(doc.Components.Schemas)
	for _, s := range doc.Components.Schemas.Map() {
		for _, p := range s.Properties {
			if p.Type == huma.TypeArray {
				p.Nullable = false // lists are empty, never null
			}
		}
	}
	for _, item := range doc.Paths {
		for _, o := range operations(item) {
			describeMore(o)
		}
	}
	a.describeBodies(doc)
	for _, item := range doc.Paths {
		for _, o := range operations(item) {
			describeParameters(o)
			describeErrors(o)
			describeHeaders(o)
		}
	}
	describeInfo(doc)
}

// encodeDocument returns the document as it is served. It is called once, when a
// client asks for the document.
func (a *API) encodeDocument() []byte {
	document, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		panic(fmt.Sprintf("api: encode the OpenAPI document: %v", err))
	}
	return finishSchemas(document)
}

func describeMore(o *huma.Operation) {
	if status, ok := otherStatuses[o.OperationID]; ok {
		same := *o.Responses["200"]
		same.Description = http.StatusText(http.StatusCreated)
		o.Responses[status] = &same
	}
}

// describeBodies describes what huma cannot derive: bodies that are not JSON
// objects of this package, and streams.
func (a *API) describeBodies(doc *huma.OpenAPI) {
	text := &huma.Schema{Type: huma.TypeString}
	file := map[string]*huma.MediaType{}
	for _, t := range workloadTypes {
		file[t] = &huma.MediaType{Schema: &huma.Schema{Description: "A workload file; `hostler schema` prints its JSON Schema."}, Example: exampleWorkload}
	}
	doc.Paths["/v1/workloads/{id}"].Put.RequestBody = &huma.RequestBody{Required: true, Content: file}

	// huma describes the body under 200, which this operation never returns.
	deletion := doc.Paths["/v1/workloads/{id}"].Delete.Responses
	deletion["202"], deletion["204"] = deletion["200"], &huma.Response{Description: "It is deleted."}
	deletion["202"].Description = "It is deleted with its last container."
	delete(deletion, "200")

	describeMemory(doc)
	describeFiles(doc)
	describeArchives(doc)
	describeCommands(doc)

	logs := doc.Paths["/v1/containers/{id}/logs"].Get.Responses["200"]
	logs.Content = map[string]*huma.MediaType{"text/plain": {Schema: text}}

	page := doc.Components.Schemas.Schema(reflect.TypeFor[EventPage](), true, "EventPage")
	event := doc.Components.Schemas.Schema(reflect.TypeFor[FollowedEvent](), true, "FollowedEvent")
	doc.Paths["/v1/events"].Get.Responses["200"].Content = map[string]*huma.MediaType{
		"application/json": {Schema: page},
	}
	doc.Paths["/v1/events/stream"].Get.Responses["200"].Content = map[string]*huma.MediaType{
		typeNDJSON: {Schema: event},
		typeSSE:    {Schema: text},
	}
	for _, s := range []string{"EventPage", "FollowedEvent"} {
		for _, p := range doc.Components.Schemas.Map()[s].Properties {
			p.Nullable = false
		}
	}
}

func (a *API) openapi(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(a.document()) //nolint:errcheck // the client has disconnected
}
