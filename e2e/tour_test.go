package e2e

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite docs/tour")

// tour is one experience of a user: commands and what they print.
type tour struct {
	title, intro string
	needs        []string          // programs in addition to the shell
	files        map[string]string // in the directory of the commands
	follows      bool              // the server follows the directory workloads there
	begin        func(t *testing.T, s *server, r *tourRecorder)
	steps        []tourStep
}

// tourStep is a command of the shell, with what is to be read before it and the event
// of the tour's workload that is awaited before it. ID stands for the end of the last
// id that was printed.
type tourStep struct {
	text  string
	await client.EventType
	run   string
}

// The pages of docs/tour are what the commands of the experiences print, but for ids,
// times and other values that differ between runs. Regenerate them with
// go test ./e2e -run TestTour -update.
func TestTour(t *testing.T) {
	t.Parallel()
	for name, tour := range tours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, needed := range tour.needs {
				if _, err := exec.LookPath(needed); err != nil {
					testenv.Skip(t, "shells", "there is no %s: %v", needed, err)
				}
			}
			page := []byte(tour.record(t))
			file := filepath.Join("..", "docs", "tour", name+".md")
			if *update {
				require.NoError(t, os.WriteFile(file, page, 0o644)) //nolint:gosec // it is a page
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), string(page))
		})
	}
	t.Run("pages", func(t *testing.T) {
		pages, err := filepath.Glob("../docs/tour/*.md")
		require.NoError(t, err)
		var names []string
		for _, page := range pages {
			names = append(names, strings.TrimSuffix(filepath.Base(page), ".md"))
		}
		require.Subset(t, slices.Collect(maps.Keys(tours)), names, "pages that no tour makes")
	})
}

// record runs the tour and returns its page.
func (o tour) record(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "workloads"), 0o700))
	for name, text := range o.files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var args []string
	if o.follows {
		args = []string{"--workloads", filepath.Join(dir, "workloads")}
	}
	s := serve(t, processBackend{}, args...)
	r := &tourRecorder{s: s, dir: dir, values: map[string]string{
		s.base: "http://127.0.0.1:8700", filepath.Join(dir, "workloads"): "/etc/hostler/workloads", s.data: "/var/lib/hostler",
	}}
	if o.begin != nil {
		o.begin(t, s, r)
	}
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n\nRecorded by `go test ./e2e -run TestTour -update`. Ids, times, numbers of bytes and paths are examples.\n\n%s\n", o.title, o.intro)
	for i, step := range o.steps {
		if step.await != "" {
			s.awaitEvent(client.EventFilter{Types: []client.EventType{step.await}}, 1)
		}
		if step.text != "" {
			page.WriteString("\n" + step.text + "\n")
		}
		if step.text != "" || i == 0 {
			page.WriteString("\n```\n")
		}
		page.WriteString(r.record(step.run))
		if i+1 == len(o.steps) || o.steps[i+1].text != "" {
			page.WriteString("```\n")
		}
	}
	return page.String()
}

// tourRecorder runs commands and makes what they print the same in each run.
type tourRecorder struct {
	s      *server
	dir    string
	values map[string]string // what replaces values of this run
	ids    []string          // in the order of their appearance
	lastID string
	port   string // is shown as 8080; empty for none
}

// sessionVariables are those that commands may set for later ones.
const sessionVariables = "api json claim"

// record runs a command and returns it with its output and its exit status.
func (r *tourRecorder) record(command string) string {
	t := r.s.t
	t.Helper()
	if strings.Contains(command, "ID") {
		require.NotEmpty(t, r.lastID, command)
		command = strings.ReplaceAll(command, "ID", r.lastID[len(r.lastID)-8:])
	}
	shown := command
	if r.port != "" {
		command = strings.ReplaceAll(command, "8080", r.port)
	}
	script := "[ -e .session ] && . ./.session\n" + command + "\nstatus=$?\ndeclare -p " + sessionVariables + " >.session 2>/dev/null\nexit $status\n"
	c := exec.CommandContext(testenv.Context(t), "bash", "-c", script)
	c.Dir = r.dir
	path := filepath.Dir(program(t, "hostler")) + string(os.PathListSeparator) + os.Getenv("PATH")
	c.Env = environment("HOSTLER_SERVER="+r.s.base, "PATH="+path)
	out, err := c.CombinedOutput()
	require.NotNil(t, c.ProcessState, "%s: %v", command, err)
	text := strings.TrimRight(string(out), "\n")
	if found := uuids.FindAllString(text, -1); found != nil {
		r.lastID = found[len(found)-1]
	}
	if text != "" {
		text += "\n"
	}
	if code := c.ProcessState.ExitCode(); code != 0 {
		text += fmt.Sprintf("[exit status %d]\n", code)
	}
	if r.port != "" {
		text = strings.ReplaceAll(text, r.port, "8080")
	}
	return r.stable("$ " + shown + "\n" + text)
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// variable is what differs between two runs, with what is shown instead.
var variable = []struct {
	text  *regexp.Regexp
	shown string
}{
	{regexp.MustCompile(`\r`), ""},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "2026-11-27 09:00:00"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`), "2026-11-27T09:00:00Z"},
	{regexp.MustCompile(`revision( +)[0-9a-f]{12}( to )[0-9a-f]{12}`), "revision${1}2f0c1d9a77b1${2}91aa3c5be0d4"},
	{regexp.MustCompile(`revision( +)[0-9a-f]{12}`), "revision${1}2f0c1d9a77b1"},
	{regexp.MustCompile(`( in) +\d+\.\d ms`), "$1 512.3 ms"},
	// The removal of a container that was not created may end before its failure is recorded.
	{regexp.MustCompile(`(\n +)(\d+)(  \S+ \S+  container\.destroyed .*)(\n +)(\d+)(  \S+ \S+  pool\.warning .*)`), "$1$2$6$4$5$3"},
	// A claim fails at the same time as its container is removed.
	{regexp.MustCompile(`(\n +\d+  \S+ \S+  pool\.warning .*)(?:\n +\d+  \S+ \S+  (?:claim\.failed|container\.destroyed) .*){2}`), "$1\n  …"},
	{regexp.MustCompile(`(\nnode +)\S+`), "${1}worker-1"},
	{regexp.MustCompile(`answers in \d+ ms`), "answers in 1 ms"},
	{regexp.MustCompile(`SQLite \S+, schema \d+, \d+\.\d KiB`), "SQLite 3.53.4, schema 36, 488.0 KiB"},
	{regexp.MustCompile(`\d+\.\d ([GT]iB) of \d+\.\d ([GT]iB) free`), "42.0 GiB of 252.0 GiB free"},
	{regexp.MustCompile(`"(\w+)":(\s?)\d+\.\d+([,}\n])`), `"$1":${2}1.5$3`},
}

// stepLines match the steps of a claim with what each took.
var stepLines = regexp.MustCompile(`(?:\n  \S+ +\d+\.\d ms)+`)

// slowestSteps shows the hook of the steps of a claim only: it takes long, but others may
// take longer on a busy machine. The slowest stands first.
func (r *tourRecorder) slowestSteps(text string) string {
	var took []float64
	for _, step := range strings.Split(strings.TrimSpace(text), "\n") {
		ms, err := strconv.ParseFloat(strings.Fields(step)[1], 64)
		require.NoError(r.s.t, err, step)
		took = append(took, ms)
	}
	slices.Reverse(took)
	require.True(r.s.t, slices.IsSorted(took), text)
	require.Regexp(r.s.t, `\n  post_claim {11}.{8} ms`, text)
	return "\n  post_claim              512.3 ms\n  …"
}

// stable replaces what differs between two runs.
func (r *tourRecorder) stable(text string) string {
	for _, value := range slices.SortedFunc(maps.Keys(r.values), func(a, b string) int { return len(b) - len(a) }) {
		text = strings.ReplaceAll(text, value, r.values[value])
	}
	for _, id := range uuids.FindAllString(text, -1) {
		if !slices.Contains(r.ids, id) {
			r.ids = append(r.ids, id)
		}
	}
	for i, id := range r.ids {
		shown := fmt.Sprintf("01a21b0c-9b36-7%03x-8f3a-%012x", (i+1)*0x5a7%0x1000, (i+1)*0x9e3779b97f4a%0x1000000000000)
		text = strings.ReplaceAll(text, id, shown)
		text = strings.ReplaceAll(text, id[len(id)-8:], shown[len(shown)-8:])
	}
	text = stepLines.ReplaceAllStringFunc(text, r.slowestSteps)
	for _, v := range variable {
		text = v.text.ReplaceAllString(text, v.shown)
	}
	return text
}
