package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler/hostler/snapshot"
)

const importRoute = "POST /v1/workloads/{id}/snapshots/import"

func (a *API) archiveRoutes() {
	handle(a, op("verify-snapshot", "POST /v1/workloads/{id}/snapshots/{snapshot}/verify", "Read and check a snapshot, or all of a tenant's"), a.verifySnapshot)
	handle(a, op("export-snapshot", "GET /v1/workloads/{id}/snapshots/{snapshot}/export", "Download a snapshot as a tar"), a.exportSnapshot)
	handle(a, op("import-snapshot", importRoute, "Make a tar a tenant's current snapshot"), a.importSnapshot)
}

// exchange is a request and its response, for bodies of any size.
type exchange struct {
	request *http.Request
	writer  http.ResponseWriter
}

// Resolve keeps the request.
func (e *exchange) Resolve(ctx huma.Context) []error {
	e.request, e.writer = humago.Unwrap(ctx)
	return nil
}

// VerifyProgress is how far a verification is.
type VerifyProgress struct {
	Snapshot string `json:"snapshot" doc:"The one that is being checked."`
	Files    int    `json:"files" doc:"The number of files, directories and links so far."`
	Bytes    int64  `json:"bytes" doc:"Their total size."`
	Of       int64  `json:"total_bytes" doc:"The total size of all that is checked."`
	Read     int64  `json:"read_bytes" doc:"Bytes that were read from the sink."`
}

// Verification is the result of checking snapshots.
type Verification struct {
	OK        bool     `json:"ok" doc:"Nothing is damaged."`
	Snapshots int      `json:"snapshots" doc:"The number of snapshots that were checked."`
	Files     int      `json:"files" doc:"The number of their files, directories and links."`
	Bytes     int64    `json:"bytes" doc:"Their total size."`
	Objects   int      `json:"objects" doc:"The number of objects in the sink that they need."`
	Requests  int      `json:"requests" doc:"The number of reads of the sink."`
	Read      int64    `json:"read_bytes" doc:"Bytes that were read from the sink. What snapshots share is read once."`
	Damaged   int      `json:"damaged" doc:"The number of damages."`
	Damages   []Damage `json:"damages" doc:"The first 100 damages."`
}

// Damage is an object in the sink that is not what was stored, and what it means for
// a snapshot.
type Damage struct {
	Object   string   `json:"object" doc:"Its key below the directory of the tenant and workload."`
	Snapshot string   `json:"snapshot"`
	Problem  string   `json:"problem" doc:"What is wrong first."`
	Files    int      `json:"files" doc:"The number of files that are not what they were."`
	Paths    []string `json:"paths" doc:"The first 100 of them. A damaged index does not have their names."`
}

func viewVerification(v snapshot.Verification) *Verification {
	out := &Verification{
		OK: v.Damaged == 0, Snapshots: v.Snapshots, Files: v.Files, Bytes: v.Bytes, Objects: v.Objects,
		Requests: v.Requests, Read: v.Read, Damaged: v.Damaged, Damages: []Damage{},
	}
	for _, d := range v.Damages {
		one := Damage(d)
		one.Paths = append([]string{}, d.Paths...)
		out.Damages = append(out.Damages, one)
	}
	return out
}

// VerifyLine is a line of a verification.
type VerifyLine struct {
	Progress *VerifyProgress `json:"progress,omitempty" doc:"About once a second."`
	Result   *Verification   `json:"result,omitempty" doc:"The last line of one that has finished."`
	Error    *Problem        `json:"error,omitempty" doc:"The last line otherwise."`
}

// progressInterval is the time between two lines of progress.
const progressInterval = time.Second

type verifyIn struct {
	exchange
	ID       string `path:"id" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Snapshot string `path:"snapshot" maxLength:"128" doc:"The snapshot's id, or all."`
	Tenant   string `query:"tenant" required:"true" minLength:"1" maxLength:"200" doc:"The tenant's name." example:"alice"`
}

func (a *API) verifySnapshot(ctx context.Context, in *verifyIn) (*streamOut, error) {
	if err := permit(ctx, in.Tenant, in.ID, ""); err != nil {
		return nil, err
	}
	id := in.Snapshot
	if id == "all" {
		id = ""
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := &verifyLines{w: in.writer, cancel: cancel, next: time.Now().Add(progressInterval)}
	v, err := a.o.State.VerifySnapshots(ctx, in.ID, in.Tenant, id, func(p snapshot.VerifyProgress) {
		if now := time.Now(); !now.Before(lines.next) {
			lines.next = now.Add(progressInterval)
			line := VerifyProgress(p)
			lines.write(VerifyLine{Progress: &line})
		}
	})
	switch {
	case err != nil && !lines.begun:
		return nil, err
	case err != nil:
		lines.write(VerifyLine{Error: a.problem(in.request.Context(), err)})
	default:
		lines.write(VerifyLine{Result: viewVerification(v)})
	}
	return &streamOut{func(huma.Context) {}}, nil
}

// verifyLines writes lines as they come. It is used by one goroutine.
type verifyLines struct {
	w      http.ResponseWriter
	cancel context.CancelCauseFunc // of the verification: its client has left
	begun  bool
	next   time.Time // of the next line of progress
	buf    bytes.Buffer
}

func (l *verifyLines) write(line VerifyLine) {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", typeNDJSON)
		l.w.Header().Set("X-Accel-Buffering", "no")
		l.w.WriteHeader(http.StatusOK)
	}
	l.buf.Reset()
	writeJSON(&l.buf, line)
	_, err := l.w.Write(l.buf.Bytes())
	if err == nil {
		err = http.NewResponseController(l.w).Flush()
	}
	if err != nil {
		l.cancel(err)
	}
}

type exportIn struct {
	exchange
	ID       string `path:"id" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Snapshot string `path:"snapshot" maxLength:"128" doc:"The snapshot's id, or current."`
	Tenant   string `query:"tenant" required:"true" minLength:"1" maxLength:"200" doc:"The tenant's name." example:"alice"`
}

// exportSnapshot sends the tar while it is made. An error before its first bytes has
// a status.
func (a *API) exportSnapshot(ctx context.Context, in *exportIn) (*streamOut, error) {
	if err := permit(ctx, in.Tenant, in.ID, ""); err != nil {
		return nil, err
	}
	id := in.Snapshot
	if id == "current" {
		id = ""
	}
	if in.request.Method == http.MethodHead {
		return a.headExport(ctx, in, id)
	}
	out := &exportWriter{ctx: ctx, to: in.writer}
	_, err := a.o.State.ExportSnapshot(ctx, in.ID, in.Tenant, id, func(found snapshot.Snapshot) (io.Writer, error) {
		out.id = found.ID
		return out, nil
	})
	if err != nil && !out.begun {
		return nil, err
	}
	if err != nil {
		a.o.Log.WarnContext(ctx, "export of a snapshot aborted", "request", requestID(ctx), "error", err)
		panic(http.ErrAbortHandler)
	}
	return &streamOut{func(huma.Context) {}}, nil
}

// headExport answers without the tar.
func (a *API) headExport(ctx context.Context, in *exportIn, id string) (*streamOut, error) {
	all, err := a.o.State.Snapshots(ctx, in.ID, in.Tenant)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(s snapshot.Snapshot) bool { return s.ID == id || id == "" })
	if i < 0 {
		return nil, snapshot.ErrNoSnapshot
	}
	return &streamOut{func(huma.Context) { setExport(in.writer, all[i].ID) }}, nil
}

// setExport sets the headers of a tar of a snapshot.
func setExport(w http.ResponseWriter, id string) {
	w.Header().Set(snapshotHeader, id)
	setDownload(w, typeTar, id+".tar")
}

// snapshotHeader is the header with the id of the snapshot of a tar.
const snapshotHeader = "Hostler-Snapshot"

// exportWriter begins the response with its first bytes. It ends with the request:
// also a client that reads has no more of it then.
type exportWriter struct {
	ctx   context.Context //nolint:containedctx // of the request
	to    http.ResponseWriter
	id    string
	begun bool
}

func (w *exportWriter) Write(b []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	if !w.begun {
		w.begun = true
		setExport(w.to, w.id)
	}
	return w.to.Write(b)
}

type importIn struct {
	exchange
	ID          string `path:"id" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Tenant      string `query:"tenant" required:"true" minLength:"1" maxLength:"200" doc:"The tenant's name." example:"alice"`
	ContentType string `header:"Content-Type" hidden:"true"`
}

func (a *API) importSnapshot(ctx context.Context, in *importIn) (*struct{ Body Snapshot }, error) {
	if err := permit(ctx, in.Tenant, in.ID, ""); err != nil {
		return nil, err
	}
	if in.request.Header.Get("Content-Encoding") != "" || in.ContentType != "" && !isArchive(in.ContentType) {
		return nil, newProblem(ctx, UnsupportedMediaType, "the body is a tar as it is, of the type "+typeTar)
	}
	body := a.newUpload(in.writer, in.request)
	defer body.cutOff()()
	s, err := a.o.State.ImportSnapshot(ctx, in.ID, in.Tenant, body)
	if err != nil {
		return nil, body.refused(ctx, err)
	}
	return &struct{ Body Snapshot }{viewSnapshot(s, true)}, nil
}

// describeArchives describes the bodies of verifications, exports and imports.
func describeArchives(doc *huma.OpenAPI) {
	binary := map[string]*huma.MediaType{typeTar: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	line := doc.Components.Schemas.Schema(reflect.TypeFor[VerifyLine](), true, "VerifyLine")
	for _, name := range []string{"Verification", "Damage"} {
		for _, p := range doc.Components.Schemas.Map()[name].Properties {
			p.Nullable = false
		}
	}
	doc.Paths["/v1/workloads/{id}/snapshots/{snapshot}/verify"].Post.Responses["200"].Content = map[string]*huma.MediaType{typeNDJSON: {Schema: line}}
	exported := doc.Paths["/v1/workloads/{id}/snapshots/{snapshot}/export"].Get.Responses["200"]
	exported.Content = binary
	exported.Headers = map[string]*huma.Param{
		snapshotHeader: {Description: "The id of the snapshot.", Schema: &huma.Schema{Type: huma.TypeString}},
	}
	doc.Paths["/v1/workloads/{id}/snapshots/import"].Post.RequestBody = &huma.RequestBody{Required: true, Content: binary}
}
