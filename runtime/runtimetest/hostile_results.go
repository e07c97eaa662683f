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

// resultTable has the results of all attacks on a backend.
type resultTable struct {
	backend string

	mu    sync.Mutex // guards what follows
	rows  []row
	notes map[string]string // by attack and variant: what it did
}

// row is one attack on containers of one variant.
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

// newResultTable writes its rows to a file in HOSTILE_OUT, a directory.
func newResultTable(t *testing.T, backend string) *resultTable {
	r := &resultTable{backend: backend, notes: make(map[string]string)}
	t.Cleanup(func() { r.logSummary(t) })
	return r
}

func (r *resultTable) addNote(a attack, variant attackVariant, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes[a.Name+variant.user+variant.root()] = firstLine(what)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (r *resultTable) add(t *testing.T, a attack, variant attackVariant, result, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note := r.notes[a.Name+variant.user+variant.root()]
	r.rows = append(r.rows, row{
		Attack: a.Name, Class: a.Class, Text: a.Text, User: variant.user, Root: variant.root(), Backend: r.backend,
		Result: result, Detail: firstLine(detail), Note: note,
	})
	t.Logf("%-8s %s (%s) %s", result, a.Name, firstLine(detail), note)
	r.save(t, variant)
}

// save writes the rows of one variant, so that a run that is interrupted leaves
// some, and a run of another variant does not replace them.
func (r *resultTable) save(t *testing.T, variant attackVariant) {
	dir := os.Getenv("HOSTILE_OUT")
	if dir == "" {
		return
	}
	rows := slices.DeleteFunc(slices.Clone(r.rows), func(row row) bool { return row.User != variant.user || row.Root != variant.root() })
	b, err := json.MarshalIndent(rows, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	name := fmt.Sprintf("%s-%s-%s.json", r.backend, variant.user, variant.root())
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
}

// logSummary logs how many attacks had each result.
func (r *resultTable) logSummary(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[string]int)
	for _, row := range r.rows {
		counts[row.Result]++
	}
	t.Logf("%s: %d attacks: %d held, %d tainted the container, %d are listed, %d reached the next tenant",
		r.backend, len(r.rows), counts[held], counts[tainted], counts[listed], counts[reached])
}
