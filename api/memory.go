package api

import (
	"context"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/memory"
)

// Memory keeps JSON values for claims, tenants and workloads.
type Memory interface {
	Put(ctx context.Context, claimID string, r memory.PutRequest) (memory.Written, error)
	Get(ctx context.Context, claimID string, r memory.GetRequest) (memory.Value, error)
	Delete(ctx context.Context, claimID string, r memory.DeleteRequest) (memory.Deleted, error)
	List(ctx context.Context, claimID string, r memory.ListRequest) (memory.Page, error)
}

// keyPath is the end of the path of a key, and keyPattern that of its routes in the
// mux: a key may have slashes.
const (
	keyPath    = "/memory/{key}"
	keyPattern = "/memory/{key...}"
)

// MemoryLevel is the parameter of a level.
type MemoryLevel struct {
	Level string `query:"level" enum:"claim,tenant,workload,agent,swarm,project" default:"claim" doc:"Whom the value belongs to. agent, swarm and project are other names of claim, tenant and workload."`
}

// MemoryPath is the path of a value.
type MemoryPath struct {
	ID  string `path:"id" maxLength:"128" doc:"The claim's id."`
	Key string `path:"key" doc:"The key: 1 to 200 characters, no control characters; no part of it, between slashes, is empty, . or .." example:"plan"`
	MemoryLevel
}

// version is an optional query parameter.
type version struct {
	value int64
	isSet bool
}

// Schema implements huma.SchemaProvider.
func (version) Schema(huma.Registry) *huma.Schema {
	zero := 0.0
	return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &zero}
}

// Receiver implements huma.ParamWrapper.
func (v *version) Receiver() reflect.Value { return reflect.ValueOf(&v.value).Elem() }

// OnParamSet implements huma.ParamReactor.
func (v *version) OnParamSet(isSet bool, _ any) { v.isSet = isSet }

// Conditions are the conditions of a change.
type Conditions struct {
	IfVersion   version `query:"if_version" doc:"The change is made only if the value has this version; 0: if there is none. As If-Match, and If-None-Match: *."`
	IfMatch     string  `header:"If-Match" doc:"An ETag, or * if there must be a value."`
	IfNoneMatch string  `header:"If-None-Match" doc:"*: there must be no value."`
}

// version returns the version that a value must have, or nil for any or none.
func (c Conditions) version() (*int64, error) {
	given := 0
	want := int64(0)
	if c.IfVersion.isSet {
		given++
		want = c.IfVersion.value
	}
	if c.IfNoneMatch != "" {
		given++
		if c.IfNoneMatch != "*" {
			return nil, invalidf("header.If-None-Match: a change has no other than *")
		}
	}
	if c.IfMatch != "" {
		given++
		if want = memory.AnyVersion; c.IfMatch != "*" {
			var ok bool
			if want, ok = parseETag(c.IfMatch); !ok {
				return nil, invalidf(`header.If-Match: it is not one ETag, such as "7", or *`)
			}
		}
	}
	switch given {
	case 0:
		return nil, nil
	case 1:
		return &want, nil
	}
	return nil, invalidf("only one of if_version, If-Match and If-None-Match can be given")
}

// etag returns the ETag of a version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// parseETag returns the version of an ETag. A proxy that compresses responses makes
// it a weak one.
func parseETag(tag string) (int64, bool) {
	version, err := strconv.ParseInt(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`), 10, 64)
	return version, err == nil && version > 0 && strings.HasSuffix(tag, etag(version))
}

type putMemoryIn struct {
	MemoryPath
	Conditions
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte
}

type putMemoryOut struct {
	Status int
	ETag   string `header:"ETag" doc:"The version, for If-Match."`
	Body   memory.Item
}

func (a *API) putMemory(ctx context.Context, in *putMemoryIn) (*putMemoryOut, error) {
	if t, _, err := mime.ParseMediaType(in.ContentType); in.ContentType != "" && (err != nil || t != "application/json") {
		return nil, newProblem(ctx, UnsupportedMediaType, "a value's content type is application/json")
	}
	ifVersion, err := in.version()
	if err != nil {
		return nil, err
	}
	// The server reuses the bytes once this handler returns.
	r := memory.PutRequest{Level: in.Level, Key: in.Key, Value: slices.Clone(in.RawBody), IfVersion: ifVersion}
	written, err := a.o.Memory.Put(ctx, in.ID, r)
	if err != nil {
		return nil, err
	}
	out := &putMemoryOut{Status: http.StatusOK, ETag: etag(written.Version), Body: written.Item}
	if written.Created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

type getMemoryIn struct {
	MemoryPath
	IfNoneMatch string `header:"If-None-Match" doc:"An ETag: 304 if the value still has it."`
}

type getMemoryOut struct {
	Status       int
	ETag         string    `header:"ETag" doc:"The version, for If-Match."`
	LastModified time.Time `header:"Last-Modified"`
	ContentType  string    `header:"Content-Type"`
	Body         []byte
}

func (a *API) getMemory(ctx context.Context, in *getMemoryIn) (*getMemoryOut, error) {
	v, err := a.o.Memory.Get(ctx, in.ID, memory.GetRequest{Level: in.Level, Key: in.Key})
	if err != nil {
		return nil, err
	}
	out := &getMemoryOut{
		Status: http.StatusOK, ETag: etag(v.Version), LastModified: v.UpdatedAt, ContentType: "application/json", Body: v.Value,
	}
	if known, ok := parseETag(in.IfNoneMatch); ok && known == v.Version {
		out.Status, out.Body = http.StatusNotModified, nil
	}
	return out, nil
}

type deleteMemoryIn struct {
	MemoryPath
	Conditions
}

func (a *API) deleteMemory(ctx context.Context, in *deleteMemoryIn) (*struct{ Body memory.Deleted }, error) {
	ifVersion, err := in.version()
	if err != nil {
		return nil, err
	}
	deleted, err := a.o.Memory.Delete(ctx, in.ID, memory.DeleteRequest{Level: in.Level, Key: in.Key, IfVersion: ifVersion})
	if err != nil {
		return nil, err
	}
	return &struct{ Body memory.Deleted }{deleted}, nil
}

type listMemoryIn struct {
	ID string `path:"id" maxLength:"128" doc:"The claim's id."`
	MemoryLevel
	Paging
	Prefix string `query:"prefix" maxLength:"200" doc:"Only keys that begin with it."`
}

func (a *API) listMemory(ctx context.Context, in *listMemoryIn) (*struct{ Body memory.Page }, error) {
	r := memory.ListRequest{Level: in.Level, Prefix: in.Prefix, After: in.After, Limit: in.Limit}
	page, err := a.o.Memory.List(ctx, in.ID, r)
	if err != nil {
		return nil, err
	}
	return &struct{ Body memory.Page }{page}, nil
}

// describeMemory describes the values, which are any JSON.
func describeMemory(doc *huma.OpenAPI) {
	path := doc.Paths["/v1/claims/{id}"+keyPath]
	value := map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Description: "Any JSON."}, Example: []any{"step 1"}}}
	path.Put.RequestBody = &huma.RequestBody{Required: true, Content: value}
	path.Get.Responses["200"].Content = value
	path.Get.Responses["304"] = &huma.Response{Description: "It still has the version of If-None-Match."}
}

// tenantPaths matches the beginning of a path whose rest is the tenant's: the key of a
// value, or the path of a file or of a request to its program.
var tenantPaths = regexp.MustCompile(`(?s)^/v1/claims/.*?/(memory|files|ports/[^/]*)/`)

// maxLogged bounds what a client without a credential chooses of a line of the log.
const maxLogged = 512

// loggedPath returns the path of a request without what is the tenant's.
func loggedPath(path string) string {
	if begin := tenantPaths.FindString(path); begin != "" {
		path = begin + "-"
	}
	return logged(path)
}

// logged returns the beginning of a text.
func logged(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return strings.ToValidUTF8(text[:maxLogged], "") + "…"
}
