package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/runtime"
)

// Files works on files of claims' containers. It is an access.Service.
type Files interface {
	StatFile(ctx context.Context, claimID, name string) (runtime.FileInfo, error)
	ListFiles(ctx context.Context, claimID, name, after string, limit int) ([]runtime.FileInfo, error)
	ReadFile(ctx context.Context, claimID, name string, part access.Part) (runtime.FileInfo, io.ReadCloser, error)
	ReadTree(ctx context.Context, claimID, name string) (io.ReadCloser, error)
	FileWriter
}

// FileWriter changes files of claims' containers.
type FileWriter interface {
	WriteFile(ctx context.Context, claimID, name string, mode fs.FileMode, content io.Reader) (info runtime.FileInfo, created bool, err error)
	WriteTree(ctx context.Context, claimID, name string, archive io.Reader) (runtime.FileInfo, error)
	RemoveFile(ctx context.Context, claimID, name string, recursive bool) error
}

// filePath is the end of the path of a file, and filePattern that of its routes in
// the mux.
const (
	filePath    = "/files/{path}"
	filePattern = "/files/{path...}"
)

const typeTar = "application/x-tar"

// FilePath is the path of a file.
type FilePath struct {
	ID   string `path:"id" maxLength:"128" doc:"The claim's id."`
	Path string `path:"path" required:"false" doc:"The absolute path in the container, without its first slash; empty for /. It has slashes. No part of it, between slashes, is empty, . or .." example:"etc/hosts"`

	request *http.Request
	writer  http.ResponseWriter
}

// Resolve keeps the request, for its body.
func (p *FilePath) Resolve(ctx huma.Context) []error {
	p.request, p.writer = humago.Unwrap(ctx)
	return nil
}

func (p *FilePath) name() string { return "/" + p.Path }

// isArchive reports whether a list of content types has that of tar.
func isArchive(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if t, _, err := mime.ParseMediaType(part); err == nil && t == typeTar {
			return true
		}
	}
	return false
}

type getFileIn struct {
	FilePath
	Stat        bool   `query:"stat" doc:"Return a description of the file. A link is not followed."`
	List        bool   `query:"list" doc:"Return the entries of the directory."`
	Archive     bool   `query:"archive" doc:"Return a tar of the directory or file."`
	After       string `query:"after" maxLength:"400" doc:"With list: the value of next of the previous page."`
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"With list: the maximum number of entries."`
	Accept      string `header:"Accept" doc:"application/x-tar is as archive=true."`
	Range       string `header:"Range" doc:"One range of bytes of the content. Several are ignored."`
	IfRange     string `header:"If-Range" doc:"An ETag: the range is ignored if the file has another one."`
	IfNoneMatch string `header:"If-None-Match" doc:"ETags, or *: 304 if the file has one of them."`
}

// form returns the name of what is asked for.
func (in *getFileIn) form() (string, error) {
	var given []string
	for _, f := range []struct {
		name string
		is   bool
	}{{"stat", in.Stat}, {"list", in.List}, {"archive", in.Archive}} {
		if f.is {
			given = append(given, f.name)
		}
	}
	switch {
	case len(given) > 1:
		return "", invalidf("only one of stat, list and archive can be given")
	case len(given) == 1:
		return given[0], nil
	case isArchive(in.Accept):
		return "archive", nil
	}
	return "content", nil
}

func (a *API) getFile(ctx context.Context, in *getFileIn) (*streamOut, error) {
	form, err := in.form()
	if err != nil {
		return nil, err
	}
	get := map[string]func(context.Context, *getFileIn) (*streamOut, error){
		"stat": a.statFile, "list": a.listFiles, "archive": a.readTree, "content": a.readFile,
	}
	return get[form](ctx, in)
}

func (a *API) statFile(ctx context.Context, in *getFileIn) (*streamOut, error) {
	info, err := a.o.Files.StatFile(ctx, in.ID, in.name())
	if err != nil {
		return nil, err
	}
	return jsonOut(viewFile(info)), nil
}

// FilePage is a page of the entries of a directory.
type FilePage struct {
	Items []runtime.FileInfo `json:"items"`
	Next  string             `json:"next" doc:"The value of after for the next page; empty at the end."`
}

func (a *API) listFiles(ctx context.Context, in *getFileIn) (*streamOut, error) {
	// A name need not be UTF-8.
	after, err := base64.RawURLEncoding.DecodeString(in.After)
	if err != nil {
		return nil, invalidf("query.after: it is not the next of a page")
	}
	// One more than the limit would exceed that of the container.
	items, err := a.o.Files.ListFiles(ctx, in.ID, in.name(), string(after), in.Limit)
	if err != nil {
		return nil, err
	}
	page := FilePage{Items: make([]runtime.FileInfo, len(items))}
	for i, info := range items {
		page.Items[i] = viewFile(info)
	}
	if n := len(items); n >= in.Limit {
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(items[n-1].Name))
	}
	return jsonOut(page), nil
}

// viewFile returns a description without a time that JSON has no form for.
func viewFile(info runtime.FileInfo) runtime.FileInfo {
	if y := info.Modified.UTC().Year(); y < 0 || y > 9999 {
		info.Modified = time.Time{}
	}
	info.Modified = info.Modified.UTC()
	return info
}

func jsonOut(v any) *streamOut {
	return &streamOut{func(c huma.Context) {
		c.SetHeader("Content-Type", "application/json")
		json.NewEncoder(c.BodyWriter()).Encode(v) //nolint:errcheck,errchkjson // the client has disconnected
	}}
}

func (a *API) readTree(ctx context.Context, in *getFileIn) (*streamOut, error) {
	if in.request.Method == http.MethodHead {
		if _, err := a.o.Files.StatFile(ctx, in.ID, in.name()); err != nil {
			return nil, err
		}
		return &streamOut{func(huma.Context) { setDownload(in.writer, typeTar, archiveName(in.name())) }}, nil
	}
	archive, err := a.o.Files.ReadTree(ctx, in.ID, in.name())
	if err != nil {
		return nil, err
	}
	begin, err := beginContent(archive, -1)
	if err != nil {
		archive.Close() //nolint:errcheck // nothing was read
		return nil, err
	}
	return &streamOut{func(huma.Context) {
		defer archive.Close() //nolint:errcheck // it was only read
		setDownload(in.writer, typeTar, archiveName(in.name()))
		a.send(ctx, in.writer, begin, -1)
	}}, nil
}

func archiveName(name string) string {
	if base := path.Base(name); base != "/" {
		return base + ".tar"
	}
	return "root.tar"
}

// parseMode returns the permissions that a text in octal has.
func parseMode(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, invalidf("query.mode: %q is not between 0 and 0777, in octal", text)
	}
	return fs.FileMode(mode), nil
}

type putFileIn struct {
	FilePath
	Mode        string `query:"mode" maxLength:"5" default:"0644" doc:"The permissions of the file, in octal."`
	Archive     bool   `query:"archive" doc:"Unpack the body, a tar, into the directory."`
	ContentType string `header:"Content-Type" hidden:"true"`
}

type putFileOut struct {
	Status int
	Body   runtime.FileInfo
}

func (a *API) putFile(ctx context.Context, in *putFileIn) (*putFileOut, error) {
	mode, err := parseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Content-Encoding", "Content-Range"} {
		if in.request.Header.Get(name) != "" {
			return nil, newProblem(ctx, UnsupportedMediaType, "the body is the whole content as it is: "+name+" is not supported")
		}
	}
	body := a.newUpload(in.writer, in.request)
	defer body.cutOff()()
	out := &putFileOut{Status: http.StatusOK}
	var created bool
	if in.Archive || isArchive(in.ContentType) {
		out.Body, err = a.o.Files.WriteTree(ctx, in.ID, in.name(), body)
	} else {
		out.Body, created, err = a.o.Files.WriteFile(ctx, in.ID, in.name(), mode, body)
	}
	if err != nil {
		return nil, body.refused(ctx, err)
	}
	out.Body = viewFile(out.Body)
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

type deleteFileIn struct {
	FilePath
	Recursive bool `query:"recursive" doc:"Also a directory that is not empty."`
}

func (a *API) deleteFile(ctx context.Context, in *deleteFileIn) (*struct{}, error) {
	return nil, a.o.Files.RemoveFile(ctx, in.ID, in.name(), in.Recursive)
}

// fileCodes are the codes of the reasons of a runtime.FileError.
var fileCodes = map[runtime.FileReason]Code{
	runtime.FileNotFound:    FileNotFound,
	runtime.FileDenied:      FileDenied,
	runtime.FileNotRegular:  NotAFile,
	runtime.FileNotDir:      NotDirectory,
	runtime.FileNotEmpty:    NotEmpty,
	runtime.FileOutside:     PathOutside,
	runtime.FileInvalid:     InvalidRequest,
	runtime.FileNoSpace:     NoSpace,
	runtime.FileChanged:     FileChanged,
	runtime.FileReadOnly:    ReadOnly,
	runtime.FileOtherReason: FileFailed,
}

// fileCode returns the code of an error about a file. A container may send a reason
// that this server does not know.
func fileCode(err *runtime.FileError) Code {
	if code, ok := fileCodes[err.Reason]; ok {
		return code
	}
	return FileFailed
}

// checkFilePath refuses a path that the mux would redirect, and one that means
// another file in the container than it does in a URL.
func checkFilePath(r *http.Request) *Problem {
	if strings.HasSuffix(r.URL.Path, "/files") {
		return newProblem(r.Context(), NotFound, "no such path: "+quote(r.URL.Path)+"; the root directory is "+quote(r.URL.Path+"/"))
	}
	if trimmed := strings.TrimSuffix(r.URL.Path, "/"); trimmed != path.Clean(trimmed) {
		return newProblem(r.Context(), InvalidRequest, "a part of the path, between slashes, is empty, . or ..: write the path that it leads to")
	}
	return nil
}

// describeFiles describes the bodies and headers of files.
func describeFiles(doc *huma.OpenAPI) {
	item := doc.Paths["/v1/claims/{id}"+filePath]
	for _, o := range []*huma.Operation{item.Get, item.Put, item.Delete} {
		for _, p := range o.Parameters {
			p.Required = p.Required || p.In == "path"
		}
	}
	binary := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	schemas := doc.Components.Schemas
	info := schemas.Schema(fileInfoType, true, "FileInfo")
	page := schemas.Schema(filePageType, true, "FilePage")
	schemas.Map()["FilePage"].Properties["items"].Nullable = false
	whole := item.Get.Responses["200"]
	whole.Content = map[string]*huma.MediaType{
		"application/octet-stream": {Schema: binary},
		typeTar:                    {Schema: binary},
		"application/json":         {Schema: &huma.Schema{Description: "With stat a FileInfo, with list a FilePage.", OneOf: []*huma.Schema{info, page}}},
	}
	text := &huma.Schema{Type: huma.TypeString}
	whole.Headers = map[string]*huma.Param{
		fileHeader: {Description: "The description of the file, as with stat: JSON in ASCII. Only of content.", Schema: text},
		"ETag":     {Description: "Of content: of its size and time of change.", Schema: text},
	}
	item.Get.Responses["206"] = &huma.Response{Description: "The range.", Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: binary}}}
	item.Get.Responses["304"] = &huma.Response{Description: "The file has an ETag of If-None-Match."}
	item.Put.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/octet-stream": {Schema: binary},
		typeTar:                    {Schema: binary},
	}}
}
