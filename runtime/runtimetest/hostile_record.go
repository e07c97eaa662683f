package runtimetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// record is what became of all attacks on a backend.
type record struct {
	backend string

	mu    sync.Mutex // guards what follows
	rows  []row
	notes map[string]string // by attack and way: what it did
}

// row is one attack on containers made in one way.
type row struct {
	Attack  string `json:"attack"`
	Class   string `json:"class"`
	Text    string `json:"text"`
	User    string `json:"user"`
	Root    string `json:"root"`
	Backend string `json:"backend"`
	Result  string `json:"result"`
	Detail  string `json:"detail,omitempty"` // what tainted it, or was observed
	Note    string `json:"note,omitempty"`   // why it could not be performed
}

// newRecord keeps its rows in a file of HOSTILE_OUT, a directory.
func newRecord(t *testing.T, backend string) *record {
	r := &record{backend: backend, notes: make(map[string]string)}
	t.Cleanup(func() { r.close(t) })
	return r
}

func (r *record) note(a attack, way attacked, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes[a.Name+way.user+way.root()] = firstLine(what)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (r *record) add(t *testing.T, a attack, way attacked, result, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note := r.notes[a.Name+way.user+way.root()]
	r.rows = append(r.rows, row{
		Attack: a.Name, Class: a.Class, Text: a.Text, User: way.user, Root: way.root(), Backend: r.backend,
		Result: result, Detail: firstLine(detail), Note: note,
	})
	t.Logf("%-8s %s (%s) %s", result, a.Name, firstLine(detail), note)
	r.save(t, way)
}

// save writes the rows of one way, so that a run that is ended early leaves
// some, and one of another way does not replace them.
func (r *record) save(t *testing.T, way attacked) {
	dir := os.Getenv("HOSTILE_OUT")
	if dir == "" {
		return
	}
	rows := slices.DeleteFunc(slices.Clone(r.rows), func(row row) bool { return row.User != way.user || row.Root != way.root() })
	b, err := json.MarshalIndent(rows, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	name := fmt.Sprintf("%s-%s-%s.json", r.backend, way.user, way.root())
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
}

// close says how many there were of each result.
func (r *record) close(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[string]int)
	for _, row := range r.rows {
		counts[row.Result]++
	}
	t.Logf("%s: %d attacks: %d held, %d tainted the container, %d are listed, %d reached the next tenant",
		r.backend, len(r.rows), counts[held], counts[tainted], counts[listed], counts[reached])
}
