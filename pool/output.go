package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/rootcause"
	"github.com/hostler/hostler/runtime"
)

// OutputState is whether the last output of a container is kept with its record.
type OutputState string

// The states of the output of a container that failed. It is kept with the record of
// the failure, or else, if the engine or the server failed then too, read before the
// container is removed.
const (
	NoOutput     OutputState = ""
	OutputWanted OutputState = "wanted"
	OutputKept   OutputState = "kept"
)

// Output is the last output of a container that failed.
type Output struct {
	Container string
	Workload  string
	Tenant    string         // whose it is: that of the container's record when it was read
	Main      runtime.Output // of its main process
	Check     runtime.Output // of the health check that failed
	KeptAt    time.Time
	Large     bool // only the newest of a tenant stay whole; set by the store

	last string // lines at the end of Main
}

// Outputs is the store of the output of containers that failed.
type Outputs interface {
	// Output returns what is kept of a container, or ErrNoOutput.
	Output(ctx context.Context, container string) (Output, error)
}

// How much output is kept, and how much more is read, so that a secret that the
// beginning of what is kept would divide is replaced as a whole: the largest secret in
// base64 is shorter.
const (
	keptOutput   = runtime.OutputHead + runtime.OutputTail
	outputMargin = 96 << 10
)

// outputTimeout bounds how long the record of a failure waits for the output: the
// engine may be why the container failed.
const outputTimeout = 2 * time.Second

// How much of the output is in the reason of a failure.
const (
	maxLastLines = 3
	maxLineRunes = 160
)

// outputReader reads the last output of containers.
type outputReader struct {
	rt     runtime.Runtime
	log    *slog.Logger
	redact func(string) string // replaces the secrets of hooks
}

// read returns the last output of a container, and that of the health check whose
// error cause is. It returns nil if there is none, and a state that reports that it is
// still wanted if it could not be read.
func (r *outputReader) read(ctx context.Context, c Container, cause error) (*Output, OutputState) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outputTimeout)
	defer cancel()
	o := Output{Tenant: c.Tenant}
	if failed, ok := errors.AsType[*checkError](cause); ok {
		o.Check = failed.printed
	}
	text, err := r.main(ctx, c)
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		r.log.Info("reading the output of a failed container failed", "container", c.ID, "error", err)
		if o.Check.Total == 0 {
			return nil, OutputWanted
		}
	}
	if o.Main = r.kept(text, len(text) == keptOutput+outputMargin); o.Main.Total == 0 && o.Check.Total == 0 {
		return nil, NoOutput
	}
	o.last = r.lastLines(o.Main)
	return &o, OutputKept
}

// main returns the end of what the main process printed since the last wipe.
func (r *outputReader) main(ctx context.Context, c Container) (string, error) {
	var since time.Time
	if c.WipedAt != nil {
		since = *c.WipedAt
	}
	logs, err := r.rt.Logs(ctx, c.ID, since, keptOutput+outputMargin)
	if err != nil {
		return "", err
	}
	defer logs.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(logs, keptOutput+outputMargin))
	return string(text), err
}

// ofCheck returns what is kept of a check.
func (r *outputReader) ofCheck(streams ...runtime.Output) runtime.Output {
	var all runtime.Output
	for _, o := range streams {
		text := o.Head + o.Tail
		if o.Truncated {
			text = o.Tail // a secret may be divided where something is missing
		}
		kept := r.kept(text, o.Truncated)
		all.Tail, all.Total, all.Truncated = all.Tail+kept.Tail, all.Total+o.Total, all.Truncated || kept.Truncated
	}
	var isLong bool
	all.Tail = r.redacted(all.Tail) // a secret may begin in one and end in the next
	all.Tail, isLong = all.Excerpt(keptOutput)
	all.Truncated = all.Truncated || isLong
	return all
}

// kept returns what is kept of a text: its end, without secrets of hooks. They are
// replaced before anything else is: a secret may have any bytes. A text that is cut
// may begin within a secret. Its beginning is left out, however short what is behind
// becomes without its secrets.
func (r *outputReader) kept(text string, isCut bool) runtime.Output {
	total := int64(len(text))
	safe := r.redacted(text)
	if isCut {
		safe = commonSuffix(safe, r.redacted(text[min(outputMargin, len(text)/2):]))
	}
	kept, isLong := runtime.Output{Tail: strings.ToValidUTF8(safe, "\uFFFD")}.Excerpt(keptOutput)
	return runtime.Output{Tail: kept, Total: total, Truncated: isLong || isCut}
}

func (r *outputReader) redacted(text string) string {
	if r.redact == nil {
		return text
	}
	return r.redact(text)
}

// commonSuffix returns the longest end that two texts have in common.
func commonSuffix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return a[len(a)-n:]
}

// lastLines returns the last lines of an output in one line that is safe to print. What
// was no secret may be one when what controls a terminal has become spaces.
func (r *outputReader) lastLines(o runtime.Output) string {
	lines := strings.FieldsFunc(o.Tail, func(c rune) bool { return c == '\n' || c == '\r' })
	var last []string
	for i := len(lines) - 1; i >= 0 && len(last) < maxLastLines; i-- {
		if line := plainLine(lines[i]); line != "" {
			last = append([]string{line}, last...)
		}
	}
	return r.redacted(strings.Join(last, " | "))
}

// plainLine returns a line without control characters, and with its end cut off if
// it is long.
func plainLine(line string) string {
	runes := []rune(strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return ' '
		}
		return c
	}, line)))
	if len(runes) > maxLineRunes {
		return string(runes[:maxLineRunes-1]) + "…"
	}
	return string(runes)
}

// failure is why a container failed, as it is recorded.
type failure struct {
	reason    string   // the cause, and the last lines that a container without a tenant printed
	chain     []string // what was being done
	container string   // whose creation failed; set where that is counted
	output    *Output
	state     OutputState
}

// newFailure returns the failure of a container. What a tenant's program printed is
// in no reason, which others may read. That of a hook, or of a program that cannot
// be started, explains the failure without the output.
func newFailure(c Container, cause error, o *Output, state OutputState) failure {
	f := failure{output: o, state: state}
	f.reason, f.chain = rootcause.Of(cause)
	if check, ok := errors.AsType[*checkError](cause); ok && c.Tenant != "" {
		f.reason = check.plain()
	}
	_, ofHook := errors.AsType[*hooks.Error](cause)
	_, notStarted := errors.AsType[*runtime.StartError](cause)
	if o == nil || ofHook || notStarted || c.Tenant != "" {
		return f
	}
	if o.last != "" {
		f.reason += "; last output: " + o.last
	}
	return f
}

// record adds the failure to a transition of the container, which sets the reason.
func (f failure) record(m Transition) Transition {
	set := m.Set
	m.Output = f.output
	m.Set = func(c *Container) {
		known := c.Reason
		set(c)
		if c.Reason != known {
			c.ReasonChain = f.chain
		}
		f.noteOutput(c)
	}
	return m
}

// noteOutput sets whether the output is kept. What is kept already is not wanted
// again.
func (f failure) noteOutput(c *Container) {
	if f.state == OutputKept || f.state == OutputWanted && c.Output == NoOutput {
		c.Output = f.state
	}
}

// excerpts returns what an event shows of the output.
func (f failure) excerpts() (main, check *activity.Excerpt) {
	if f.output == nil {
		return nil, nil
	}
	return excerpt(f.output.Main), excerpt(f.output.Check)
}

func excerpt(o runtime.Output) *activity.Excerpt {
	if o.Total == 0 {
		return nil
	}
	text, truncated := o.Excerpt(hooks.ExcerptBytes)
	return &activity.Excerpt{Excerpt: text, Total: o.Total, Truncated: truncated}
}

// DestroyFailed is BeginDestroy of a container that failed and whose output has not
// been read: it is read before the container is removed.
func DestroyFailed(id string, from []State, reason string, chain ...string) Transition {
	return failure{chain: chain, state: OutputWanted}.record(BeginDestroy(id, from, reason))
}

// failedError is the error of a creation, with what is recorded of it.
type failedError struct {
	failure
	err error
}

func (e *failedError) Error() string { return e.err.Error() }
func (e *failedError) Unwrap() error { return e.err }

// keepOutput reads the output of a container that failed, if that was not possible
// before, and records it. Whatever happens, the container can be removed then.
func (p *Provisioner) keepOutput(ctx context.Context, c Container) error {
	o, state := p.outputs.read(ctx, c, nil)
	if state == OutputWanted {
		state = NoOutput // it is about to be lost
	}
	note := Note(c.ID, c.State, func(c *Container) { c.Output = state })
	note.Output = o
	if _, err := p.store.UpdateContainer(ctx, note); err != nil && !isConflict(err) {
		return fmt.Errorf("record the output: %w", err)
	}
	return nil
}

// keptLogs returns the kept output of a container that is gone. What it printed for a
// tenant before its last one, who may read its record, is not returned.
func (m *Manager) keptLogs(ctx context.Context, c Container, tail int64) (io.ReadCloser, error) {
	o, err := m.store.Output(ctx, c.ID)
	if err == nil && o.Tenant != "" && o.Tenant != c.Tenant {
		err = fmt.Errorf("read the output of container %s: %w", c.ID, ErrNoOutput)
	}
	if err != nil {
		return nil, err
	}
	text := o.Main.String()
	if o.Check.Total > 0 {
		text += "\n[the health check printed:]\n" + o.Check.String()
	}
	text, _ = runtime.Output{Tail: text}.Excerpt(int(tail))
	return io.NopCloser(strings.NewReader(text)), nil
}
