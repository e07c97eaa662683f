// Command chart draws the results of `make bench` as SVG files.
//
//	chart RAW DIR
//
// RAW is the output of `go test -bench`, DIR the output directory. Each chart
// is a row of the table charts: the benchmarks with a common name prefix, and
// the units that they report.
package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// chart is one chart: a bar for each matching benchmark and unit.
type chart struct {
	file, title string
	prefix      string   // of the benchmarks' names
	units       []string // one bar each
	unit        string   // the label of the axis
}

var charts = []chart{
	{"exec.svg", "One command, median", "BenchmarkExec-", []string{"session-p50-ms", "engine-p50-ms", "cli-p50-ms", "host-p50-ms"}, "ms"},
	{"restart.svg", "A restart of the main process, median", "BenchmarkRestart-", []string{"session-p50-ms", "engine-p50-ms"}, "ms"},
	{"claim.svg", "A warm claim on Docker, one after another", "BenchmarkWarmClaim/", []string{"p50-ms", "p95-ms", "p99-ms"}, "ms"},
	{"burst.svg", "Twenty claims at once on twenty idle containers", "BenchmarkBurst/", []string{"alone-p50-ms", "p50-ms", "p95-ms"}, "ms"},
	{"throughput.svg", "Claims with their releases, durable, runtime in memory", "BenchmarkClaimRelease/", []string{"claims+releases/s"}, "per second"},
}

// result is one figure of one benchmark.
type result struct {
	name  string
	value float64
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: chart RAW DIR")
		os.Exit(2)
	}
	if err := draw(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// draw writes all charts for which there are results.
func draw(raw, dir string) error {
	lines, err := read(raw)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range charts {
		bars := c.bars(lines)
		if len(bars) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(svg(c, bars)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read returns the fields of every benchmark line.
func read(raw string) ([][]string, error) {
	f, err := os.Open(raw)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines [][]string
	s := bufio.NewScanner(f)
	for s.Scan() {
		if fields := strings.Fields(s.Text()); len(fields) >= 4 && strings.HasPrefix(fields[0], "Benchmark") {
			lines = append(lines, fields)
		}
	}
	return lines, s.Err()
}

// bars returns the results that belong to the chart.
func (c chart) bars(lines [][]string) []result {
	var bars []result
	for _, fields := range lines {
		if !strings.HasPrefix(fields[0], c.prefix) {
			continue
		}
		name := strings.TrimPrefix(fields[0], c.prefix)
		if i := strings.LastIndex(name, "-"); i >= 0 {
			name = name[:i] // the number of processors
		} else {
			name = ""
		}
		for _, unit := range c.units {
			if v, ok := value(fields, unit); ok {
				label := strings.TrimSuffix(strings.TrimSuffix(unit, "-ms"), "claims+releases/s")
				bars = append(bars, result{strings.TrimSpace(name + " " + label), v})
			}
		}
	}
	return bars
}

// value returns the value of a unit in a benchmark line.
func value(fields []string, unit string) (float64, bool) {
	for i := 2; i+1 < len(fields); i += 2 {
		if fields[i+1] == unit {
			v, err := strconv.ParseFloat(fields[i], 64)
			return v, err == nil
		}
	}
	return 0, false
}

// The dimensions of a chart, in pixels.
const (
	width, labelWidth, barHeight, gap, topMargin = 760, 220, 20, 8, 48
)

// svg returns a chart of horizontal bars with their values.
func svg(c chart, bars []result) string {
	maxValue := 0.0
	for _, b := range bars {
		maxValue = max(maxValue, b.value)
	}
	height := topMargin + len(bars)*(barHeight+gap) + gap
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&s, `<text x="%d" y="26" font-size="16" fill="#222">%s (%s)</text>`+"\n", gap, c.title, c.unit)
	for i, b := range bars {
		y := topMargin + i*(barHeight+gap)
		w := b.value / maxValue * (width - labelWidth - 90)
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end" fill="#222">%s</text>`+"\n", labelWidth-gap, y+15, b.name)
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="#3b6ea5"/>`+"\n", labelWidth, y, max(w, 1), barHeight)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" fill="#222">%s</text>`+"\n", labelWidth+w+gap, y+15, strconv.FormatFloat(b.value, 'g', 4, 64))
	}
	s.WriteString("</svg>\n")
	return s.String()
}
