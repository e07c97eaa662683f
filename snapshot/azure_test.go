package snapshot_test

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The account of azureServer, and its one container.
const (
	azureAccount   = "account"
	azureContainer = "bucket"
)

// azureKey is the account's key.
var azureKey = base64.StdEncoding.EncodeToString([]byte("a-secret-that-no-one-may-see"))

// azureServer stores block blobs in memory and implements the part of Azure's
// Blob REST protocol that the sink uses, as Microsoft documents it.
//
// It proves that the sink's requests conform to the protocol, above all a
// create, and that the sink interprets documented answers correctly: errors,
// pages, and an empty page that is not the last. It does not prove that Azure
// answers as documented, nor anything about limits, or about signatures, of
// which it only checks the account's name.
type azureServer struct {
	// mu guards what follows.
	mu     sync.Mutex
	blobs  map[string]azureBlob
	blocks map[string]map[string][]byte // by blob and id, not committed
}

type azureBlob struct {
	data []byte
	time time.Time
}

func newAzureServer() *azureServer {
	return &azureServer{blobs: map[string]azureBlob{}, blocks: map[string]map[string][]byte{}}
}

// azurePage is the maximum size of a page, even if a client requests more, as
// Azure reserves the right to do.
const azurePage = 50

func (s *azureServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("X-Ms-Version", r.Header.Get("X-Ms-Version"))
	w.Header().Set("X-Ms-Request-Id", "request")
	name, ok := strings.CutPrefix(r.URL.Path, "/"+azureAccount+"/"+azureContainer)
	name = strings.TrimPrefix(name, "/")
	q := r.URL.Query()
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey "+azureAccount+":"):
		azureError(w, http.StatusForbidden, "AuthenticationFailed")
	case !ok:
		azureError(w, http.StatusNotFound, "ContainerNotFound")
	case name == "" && r.Method == http.MethodGet && q.Get("restype") == "container" && q.Get("comp") == "list":
		s.list(w, r)
	case name != "" && r.Method == http.MethodPut && q.Get("comp") == "block":
		s.putBlock(w, r, name)
	case name != "" && r.Method == http.MethodPut && q.Get("comp") == "blocklist":
		s.putBlockList(w, r, name)
	case name != "" && r.Method == http.MethodPut && q.Get("comp") == "" && r.Header.Get("X-Ms-Blob-Type") == "BlockBlob":
		data, err := io.ReadAll(r.Body)
		s.put(w, r, name, data, err)
	case name != "" && r.Method == http.MethodGet && q.Get("comp") == "":
		s.get(w, r, name)
	case name != "" && r.Method == http.MethodDelete && q.Get("comp") == "":
		s.remove(w, name)
	default:
		azureError(w, http.StatusBadRequest, "UnsupportedHttpVerb")
	}
}

// azureError answers with an error in Azure's format.
func azureError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>as the test wants it</Message></Error>`, code)
}

// put implements Put Blob, and the end of Put Block List: both have conditions.
func (s *azureServer) put(w http.ResponseWriter, r *http.Request, name string, data []byte, err error) {
	_, there := s.blobs[name]
	switch condition := r.Header.Get("If-None-Match"); {
	case err != nil:
		azureError(w, http.StatusBadRequest, "IncompleteBody")
	case condition == "*" && there:
		azureError(w, http.StatusConflict, "BlobAlreadyExists")
	case condition != "" && condition != "*":
		azureError(w, http.StatusBadRequest, "InvalidHeaderValue")
	default:
		s.blobs[name] = azureBlob{data, time.Now()}
		delete(s.blocks, name)
		s.describe(w, name)
		w.WriteHeader(http.StatusCreated)
	}
}

func (s *azureServer) describe(w http.ResponseWriter, name string) {
	at := s.blobs[name].time
	w.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	w.Header().Set("Etag", fmt.Sprintf(`"0x%X"`, at.UnixNano()))
}

func (s *azureServer) putBlock(w http.ResponseWriter, r *http.Request, name string) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		azureError(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	if s.blocks[name] == nil {
		s.blocks[name] = map[string][]byte{}
	}
	s.blocks[name][r.URL.Query().Get("blockid")] = data
	w.WriteHeader(http.StatusCreated)
}

func (s *azureServer) putBlockList(w http.ResponseWriter, r *http.Request, name string) {
	var list struct {
		Latest []string `xml:"Latest"`
	}
	err := xml.NewDecoder(r.Body).Decode(&list)
	var data []byte
	for _, id := range list.Latest {
		block, ok := s.blocks[name][id]
		if !ok {
			azureError(w, http.StatusBadRequest, "InvalidBlockList")
			return
		}
		data = append(data, block...)
	}
	s.put(w, r, name, data, err)
}

func (s *azureServer) get(w http.ResponseWriter, r *http.Request, name string) {
	blob, ok := s.blobs[name]
	if !ok {
		azureError(w, http.StatusNotFound, "BlobNotFound")
		return
	}
	s.describe(w, name)
	w.Header().Set("Content-Type", "application/octet-stream")
	if ranged := r.Header.Get("X-Ms-Range"); ranged != "" {
		r.Header.Set("Range", ranged)
		if from, _, _ := strings.Cut(strings.TrimPrefix(ranged, "bytes="), "-"); isAtLeast(from, len(blob.data)) {
			azureError(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
	}
	// Other requests are answered while a client does not read.
	s.mu.Unlock()
	defer s.mu.Lock()
	http.ServeContent(w, r, "", blob.time, bytes.NewReader(blob.data))
}

// isAtLeast reports whether text is a number of at least n.
func isAtLeast(text string, n int) bool {
	number, err := strconv.Atoi(text)
	return err == nil && number >= n
}

func (s *azureServer) remove(w http.ResponseWriter, name string) {
	if _, ok := s.blobs[name]; !ok {
		azureError(w, http.StatusNotFound, "BlobNotFound")
		return
	}
	delete(s.blobs, name)
	w.WriteHeader(http.StatusAccepted)
}

type azureListed struct {
	Name     string `xml:"Name"`
	Modified string `xml:"Properties>Last-Modified"`
	Length   int    `xml:"Properties>Content-Length"`
	Type     string `xml:"Properties>BlobType"`
}

// list implements List Blobs. The first page of several is empty except for its
// marker: Azure documents that this can happen.
func (s *azureServer) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var page struct {
		XMLName xml.Name      `xml:"EnumerationResults"`
		Blobs   []azureListed `xml:"Blobs>Blob"`
		Next    string        `xml:"NextMarker"`
	}
	most := azurePage
	if n, err := strconv.Atoi(q.Get("maxresults")); err == nil {
		most = min(most, n)
	}
	if q.Get("marker") == "" {
		most = 0
	}
	for _, name := range slices.Sorted(maps.Keys(s.blobs)) {
		if !strings.HasPrefix(name, q.Get("prefix")) || name < strings.TrimPrefix(q.Get("marker"), "from ") {
			continue
		}
		if len(page.Blobs) == most {
			page.Next = "from " + name
			break
		}
		b := s.blobs[name]
		page.Blobs = append(page.Blobs, azureListed{name, b.time.UTC().Format(http.TimeFormat), len(b.data), "BlockBlob"})
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(page)
}
