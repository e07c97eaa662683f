package benchmarks

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// onePercent is the step from one changed file to the next.
const onePercent = 100

// stateRows are the rows of the table, in its order.
var stateRows = []string{
	"first upload", "nothing changed", "one file changed", "1 % of the files changed",
	"download into a new container", "download of 1 % into the last container",
}

// BenchmarkState measures transfers of a tenant's state through the API of servers
// on a directory and on S3, and rclone and restic on the same files. The systems
// alternate in each row; the table has medians. HOSTLER_BUILDS compares builds,
// HOSTLER_BENCH_STATE_MIB, _FILES and _ROUNDS are the size of the data set and
// how often everything is repeated, HOSTLER_BENCH_BACKEND is process or docker.
// It ignores b.N: run it with -benchtime 1x.
func BenchmarkState(b *testing.B) {
	for _, kind := range []string{"dir", "s3"} {
		b.Run(kind, func(b *testing.B) { benchState(b, kind) })
	}
}

// stateTable collects the results of BenchmarkState.
type stateTable struct {
	files, total int
	systems      []stateSystem
	times        map[string]map[string][]time.Duration // by row and column
	stored       map[int]map[int][]int64               // by number of snapshots and system
}

func benchState(b *testing.B, kind string) {
	b.Helper()
	t := &stateTable{
		files: benchNumber(b, "HOSTLER_BENCH_STATE_FILES", 5000),
		total: benchNumber(b, "HOSTLER_BENCH_STATE_MIB", 958) << 20,
		times: map[string]map[string][]time.Duration{}, stored: map[int]map[int][]int64{1: {}, 3: {}},
	}
	rounds := benchNumber(b, "HOSTLER_BENCH_STATE_ROUNDS", 3)
	sink := newStateSink(b, kind)
	for _, build := range stateBuilds(b) {
		t.systems = append(t.systems, &hostlerState{
			server: startStateServer(b, build[0], build[1], sink), next: startStateServer(b, build[0], build[1], sink),
		})
	}
	t.systems = append(t.systems, newStateTools(b, sink)...)
	before := loadAverage(b)
	for range rounds {
		t.round(b)
	}
	fmt.Printf("\nState, %s: %d MiB in %d files, %s backend, medians of %d rounds in ms; load average before %s, after %s\n",
		kind, t.total>>20, t.files, stateBackend(), rounds, before, loadAverage(b))
	t.print(b)
}

// stateBuilds returns the labels and programs of the servers: those that
// HOSTLER_BUILDS lists, as for BenchmarkVersions, or that of this tree.
func stateBuilds(b *testing.B) (builds [][2]string) {
	b.Helper()
	list := os.Getenv("HOSTLER_BUILDS")
	if list == "" {
		return [][2]string{{"Hostler", buildServer(b)}}
	}
	for build := range strings.SplitSeq(list, ",") {
		name, path, found := strings.Cut(build, "=")
		require.True(b, found, "HOSTLER_BUILDS: %s is not NAME=PATH", build)
		builds = append(builds, [2]string{"Hostler " + name, path})
	}
	return builds
}

// stateBackend returns the backend of the servers.
func stateBackend() string {
	if name := os.Getenv("HOSTLER_BENCH_BACKEND"); name != "" {
		return name
	}
	return "process"
}

// round measures every row once, with new tenants and repositories.
func (t *stateTable) round(b *testing.B) {
	b.Helper()
	for _, s := range t.systems {
		s.begin(b, t.files, t.total)
	}
	upload := func(step int, first bool) func(stateSystem) columns {
		return func(s stateSystem) columns {
			if step > 0 {
				s.change(b, step)
			}
			return s.upload(b, first)
		}
	}
	t.row(0, upload(0, true))
	t.measureStored(b, 1)
	t.row(3, upload(onePercent, false))
	t.row(3, upload(onePercent, false))
	t.measureStored(b, 3)
	t.row(1, upload(0, false))
	t.row(2, upload(t.files, false))
	t.row(4, func(s stateSystem) columns { return s.download(b) })
	t.row(5, func(s stateSystem) columns { return s.downloadChanged(b) })
	for _, s := range t.systems {
		s.end(b)
	}
}

// row measures one row for each system in turn.
func (t *stateTable) row(number int, measure func(stateSystem) columns) {
	row := stateRows[number]
	if t.times[row] == nil {
		t.times[row] = map[string][]time.Duration{}
	}
	for _, s := range t.systems {
		for column, took := range measure(s) {
			t.times[row][column] = append(t.times[row][column], took)
		}
	}
}

// measureStored records what each system has stored.
func (t *stateTable) measureStored(b *testing.B, snapshots int) {
	b.Helper()
	for i, s := range t.systems {
		_, size := storedIn(b, s.stored())
		t.stored[snapshots][i] = append(t.stored[snapshots][i], size)
	}
}

// names returns the columns, those of a system next to each other.
func (t *stateTable) names() (names []string) {
	for _, row := range t.times {
		for name := range row {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (t *stateTable) print(b *testing.B) {
	b.Helper()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	names := t.names()
	fmt.Fprintf(w, "row\t%s\t\n", strings.Join(names, "\t"))
	for _, row := range stateRows {
		fmt.Fprintf(w, "%s\t", row)
		for _, name := range names {
			if all := t.times[row][name]; len(all) > 0 {
				fmt.Fprintf(w, "%.0f\t", ms(quantile(all, .5)))
			} else {
				fmt.Fprint(w, "–\t")
			}
		}
		fmt.Fprintln(w)
		if ours, theirs := t.times[row]["Hostler"], t.times[row]["rclone"]; len(ours) > 0 && len(theirs) > 0 {
			name := strings.NewReplacer(" ", "-", "%", "percent").Replace(row)
			b.ReportMetric(float64(quantile(ours, .5))/float64(quantile(theirs, .5)), name+"-hostler/rclone")
		}
	}
	require.NoError(b, w.Flush())
	for i, s := range t.systems {
		if h, ok := s.(*hostlerState); ok {
			fmt.Printf("%s: the container of the last row was %s\n", h.label(), h.reused)
		}
		one, three := medianSize(t.stored[1][i]), medianSize(t.stored[3][i])
		fmt.Printf("stored by %s: %.0f MiB after the first upload, %.0f MiB after two more with 1 %% changed before each: %.3f times the first\n",
			s.label(), one, three, three/one)
	}
}

// medianSize returns the median in MiB.
func medianSize(sizes []int64) float64 {
	slices.Sort(sizes)
	return float64(sizes[len(sizes)/2]) / (1 << 20)
}

// loadAverage returns the load of the machine over one minute.
func loadAverage(b *testing.B) string {
	b.Helper()
	out, err := os.ReadFile("/proc/loadavg")
	require.NoError(b, err)
	return strings.Fields(string(out))[0]
}
