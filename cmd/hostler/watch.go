package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// watchFlags are the flags of a list that can be watched.
type watchFlags struct {
	on       bool
	interval time.Duration
}

// minWatchInterval bounds the load of a command that is left running.
const minWatchInterval = 100 * time.Millisecond

// check returns a usage error if the server would be asked too often.
func (w *watchFlags) check(cmd *cobra.Command) error {
	if w.interval < minWatchInterval {
		return usagef(cmd, "--interval is at least %s, not %s", minWatchInterval, w.interval)
	}
	return nil
}

func (w *watchFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.on, "watch", "w", false, "print what changes until it is interrupted; what is gone is printed once more")
	cmd.Flags().DurationVar(&w.interval, "interval", 2*time.Second, "with --watch: how often the server is asked")
}

func (w *watchFlags) printer(r *remote, out io.Writer) *watchPrinter {
	return &watchPrinter{r: r, out: out, interval: w.interval, seen: map[string]string{}}
}

// watchPrinter prints the rows of a list that change.
type watchPrinter struct {
	r        *remote
	out      io.Writer
	interval time.Duration
	widths   []int             // of the columns, so far
	seen     map[string]string // what was printed last, by id and attempt
}

// watch prints a list, and then each object of it that changes, until ctx ends. A
// server that does not answer for a while is asked again.
func (k kind[T]) watch(ctx context.Context, c *client.Client, p *watchPrinter, f filters, args []string) error {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for first := true; ; first = false {
		items, err := k.fetch(ctx, c, f, args)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || !isTemporary(err)):
			return err
		case err == nil:
			if err := k.printChanges(ctx, c, p, items, first); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// isTemporary reports whether a request that failed may succeed later.
func isTemporary(err error) bool {
	answer, ok := errors.AsType[*client.Error](err)
	return errors.Is(err, client.ErrNoResponse) || ok && (answer.IsTemporary() || answer.Status == http.StatusTooManyRequests)
}

// printChanges prints the objects that have changed, and those that the list no
// longer has as they are at last.
func (k kind[T]) printChanges(ctx context.Context, c *client.Client, p *watchPrinter, items []T, first bool) error {
	if first && p.isTable() {
		rows := [][]string{strings.Fields(k.header)}
		for _, item := range items {
			rows = append(rows, k.row(item))
		}
		p.fit(rows...)
		if err := p.printRow(rows[0]); err != nil {
			return err
		}
	}
	present := map[string]bool{}
	for _, item := range items {
		id, err := printChanged(p, item, k.row)
		if err != nil {
			return err
		}
		present[id] = true
	}
	for id := range p.seen {
		if present[id] {
			continue
		}
		gone, err := k.get(ctx, c, strings.Fields(id)[0])
		if err == nil && len(gone) == 1 {
			if _, err := printChanged(p, gone[0], k.row); err != nil {
				return err
			}
		}
		delete(p.seen, id)
	}
	return nil
}

func (p *watchPrinter) isTable() bool { return p.r.output == "" || p.r.output == "table" }

// printChanged prints an object unless it was printed as it is, and returns its id.
func printChanged[T any](p *watchPrinter, item T, row func(T) []string) (string, error) {
	text, err := json.Marshal(item)
	if err != nil {
		return "", fmt.Errorf("print the response: %w", err)
	}
	cells := row(item)
	id := cells[0]
	if run, ok := any(item).(client.Run); ok {
		id = fmt.Sprint(run.ID, " ", run.Attempt)
	}
	state := string(text)
	if p.isTable() {
		state = strings.Join(cells, "\x00")
	}
	if p.seen[id] == state {
		return id, nil
	}
	p.seen[id] = state
	if p.isTable() {
		p.fit(cells)
		return id, p.printRow(cells)
	}
	if p.r.output == "json" { // one line for each, as events are
		safe := sanitizeFor(p.out, isTerminal(p.out))
		_, err := fmt.Fprintln(safe, state)
		return id, errors.Join(err, safe.Close())
	}
	if p.r.output == "yaml" {
		fmt.Fprintln(p.out, "---")
	}
	return id, p.r.printResult(p.out, item, nil)
}

// fit widens the columns for rows.
func (p *watchPrinter) fit(rows ...[]string) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(p.widths) {
				p.widths = append(p.widths, 1)
			}
			p.widths[i] = max(p.widths[i], len([]rune(sanitize(cell))))
		}
	}
}

func (p *watchPrinter) printRow(row []string) error {
	cells := slices.Clone(row)
	for i, cell := range cells {
		cells[i] = fmt.Sprintf("%-*s", p.widths[i], firstOf(sanitize(cell), "-"))
	}
	_, err := fmt.Fprintln(p.out, strings.TrimRight(strings.Join(cells, "   "), " "))
	return err
}
