package access

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/runtime"
)

const (
	// queuedUses bounds the uses that wait to be recorded, and batchedUses those that
	// one change records.
	queuedUses  = 4096
	batchedUses = 64
	// gatherFor is how long a use waits for others.
	gatherFor = 50 * time.Millisecond
	// A change that fails is tried again, in this order; then its uses are left out.
	recordTries   = 5
	recordRetry   = time.Second
	recordTimeout = 10 * time.Second
	// lastRecord bounds how long a server that stops records what is queued.
	lastRecord = 5 * time.Second
)

// The limits of what is recorded of names that tenants choose.
const (
	maxProgram = 64  // characters
	maxPath    = 512 // bytes
	maxMethod  = 16  // characters
	maxSignal  = 16  // characters, of what a container reports
)

// RecorderOptions are what a Recorder is made of.
type RecorderOptions struct {
	Store    UseStore
	Commands Commands
	// OnUse is called for each use that this server has seen the end of, recorded or
	// not, with the type of its event, but not for ends that the store records with
	// those of claims. nil: not.
	OnUse func(workload string, t activity.Type)
	// OnOmitted is called for each use that is not recorded, with its subject. nil: not.
	OnOmitted func(subject string)
	Log       *slog.Logger
}

// Recorder records what tenants do with their containers as events. Each start of a
// command that it records has one end: that which a server has seen, or which the
// container reports to RunSweep, or that of the claim.
//
// A tenant cannot make it write or remember without bound: of each claim it records
// a burst of 50 uses of a kind and then 5 a second on each server. It counts the
// others, and the next event of the kind has their number.
type Recorder struct {
	o      RecorderOptions
	limits limits
	queue  chan queuedUse
	sweeps *workqueue.Loop
}

// queuedUse is a use that is to be recorded.
type queuedUse struct {
	use     Use
	omitted int64 // what its event has counted
}

// NewRecorder returns a Recorder, whose Run records.
func NewRecorder(o RecorderOptions) *Recorder {
	if o.OnUse == nil {
		o.OnUse = func(string, activity.Type) {}
	}
	if o.OnOmitted == nil {
		o.OnOmitted = func(string) {}
	}
	r := &Recorder{o: o, queue: make(chan queuedUse, queuedUses)}
	r.sweeps = r.newSweeps()
	return r
}

var _ Uses = (*Recorder)(nil)

// CommandStarting implements Uses.
func (r *Recorder) CommandStarting(ctx context.Context, g Grant, c CommandUse) error {
	k := commandKey{g.Claim.ID, c.ID}
	omitted, ok := r.limits.take(g.Claim.ID, activity.ExecSubject, time.Now())
	if !ok && r.limits.isRecorded(k) {
		return ErrCommandOpen
	}
	if !ok {
		r.leaveOut(k)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	added, err := r.o.Store.StartCommand(ctx, OpenCommand{
		Claim: g.Claim.ID, ID: c.ID, Workload: g.Claim.Workload, Container: g.Container(), Tenant: g.Claim.Tenant,
		Fence: g.Fence(), Program: programOf(c.Args), Terminal: c.Terminal,
	}, omitted)
	if errors.Is(err, ErrTooManyOpen) {
		r.limits.omit(g.Claim.ID, activity.ExecSubject, omitted+1)
		r.leaveOut(k)
		return nil
	}
	if err != nil || !added {
		r.limits.omit(g.Claim.ID, activity.ExecSubject, omitted)
	}
	if err != nil {
		return err
	}
	r.limits.setRecorded(k)
	if !added {
		return ErrCommandOpen
	}
	return nil
}

func (r *Recorder) leaveOut(k commandKey) {
	r.limits.leaveOut(k)
	r.o.OnOmitted(activity.ExecSubject)
}

// CommandEnded implements Uses. If the command may still run, its end is recorded
// when the container reports it.
func (r *Recorder) CommandEnded(g Grant, id string, result runtime.Result, err error) {
	end, ok := endOf(g.Claim.ID, id, result, err)
	if !ok {
		return
	}
	k := commandKey{g.Claim.ID, id}
	if r.limits.isLeftOut(k) {
		r.o.OnUse(g.Claim.Workload, OpenCommand{}.EndEvent(end, time.Now()).Type)
		return
	}
	if r.limits.isEnded(k) {
		return
	}
	select {
	case r.queue <- queuedUse{use: Use{End: &end}}:
		r.limits.setEnded(k)
	default: // RunSweep finds it
	}
}

// typeOfAction are the types of events of files. Others have none.
var typeOfAction = map[FileAction]struct {
	t    activity.Type
	verb string
}{
	FileRead:   {activity.FileRead, "read"},
	FileWrite:  {activity.FileWritten, "wrote"},
	FileRemove: {activity.FileRemoved, "removed"},
}

// FileUsed implements Uses.
func (r *Recorder) FileUsed(g Grant, f FileUse, bytes int64) {
	action, ok := typeOfAction[f.Action]
	if !ok {
		return
	}
	name := recordedPath(f.Path)
	r.add(g, action.t, "the tenant "+action.verb+" "+name, func(omitted int64) any {
		return activity.FileUsedData{Bytes: bytes, Omitted: omitted, Path: name}
	})
}

// RequestCompleted implements Uses.
func (r *Recorder) RequestCompleted(g Grant, p PortUse, done RequestDone) {
	r.add(g, activity.RequestCompleted, "a request to a port of the tenant completed", func(omitted int64) any {
		return activity.RequestCompletedData{
			DurationMS: milliseconds(done.Duration), Method: clean(p.Method, maxMethod), Omitted: omitted, Port: p.Port,
			Received: done.Received, Sent: done.Sent, Status: done.Status,
		}
	})
}

// add queues an event, unless that is one too many.
func (r *Recorder) add(g Grant, t activity.Type, message string, data func(omitted int64) any) {
	r.o.OnUse(g.Claim.Workload, t)
	omitted, ok := r.limits.take(g.Claim.ID, t.Subject(), time.Now())
	if !ok {
		r.o.OnOmitted(t.Subject())
		return
	}
	q := queuedUse{omitted: omitted, use: Use{Event: activity.Event{
		Type: t, Workload: g.Claim.Workload, Container: g.Container(), Tenant: g.Claim.Tenant, Claim: g.Claim.ID,
		Message: message, Data: activity.Data(data(omitted)),
	}.CausedBy(g.Actor)}}
	select {
	case r.queue <- q:
	default:
		r.lose(q)
	}
}

// lose counts a use that is not recorded. The end of a command is left to RunSweep.
func (r *Recorder) lose(q queuedUse) {
	if q.use.End == nil {
		subject := q.use.Event.Type.Subject()
		r.limits.omit(q.use.Event.Claim, subject, q.omitted+1)
		r.o.OnOmitted(subject)
	}
}

// Run records what is queued until ctx ends, and then what is left.
func (r *Recorder) Run(ctx context.Context) error {
	forget := time.NewTicker(forgetAfter)
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRecord)
			defer cancel()
			for batch := r.drain(nil); len(batch) > 0; batch = r.drain(nil) {
				r.record(last, batch)
			}
			return nil
		case <-forget.C:
			r.limits.forget(time.Now())
		case first := <-r.queue:
			r.record(ctx, r.gather(ctx, first))
		}
	}
}

// gather returns a use with those that follow it soon.
func (r *Recorder) gather(ctx context.Context, first queuedUse) []queuedUse {
	if len(r.queue) >= batchedUses {
		return r.drain([]queuedUse{first})
	}
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.drain([]queuedUse{first})
}

// drain adds what is queued to a batch, until that is full.
func (r *Recorder) drain(batch []queuedUse) []queuedUse {
	for len(batch) < batchedUses {
		select {
		case q := <-r.queue:
			batch = append(batch, q)
		default:
			return batch
		}
	}
	return batch
}

// record records a batch, also if ctx ends while it does.
func (r *Recorder) record(ctx context.Context, batch []queuedUse) {
	uses := make([]Use, len(batch))
	for i, q := range batch {
		uses[i] = q.use
	}
	var err error
	for try := range recordTries {
		if try > 0 && !pause(ctx, recordRetry) {
			break
		}
		var events []activity.Event
		if events, err = r.recordOnce(ctx, uses); err == nil {
			r.countEnds(events)
			return
		}
	}
	r.o.Log.Warn("what tenants do was not recorded", "uses", len(batch), "error", err)
	for _, q := range batch {
		r.lose(q)
	}
}

func (r *Recorder) recordOnce(ctx context.Context, uses []Use) ([]activity.Event, error) {
	if _, hasEnd := ctx.Deadline(); !hasEnd {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
	}
	return r.o.Store.RecordUses(ctx, uses)
}

// countEnds counts the ends of commands. The other uses are counted already.
func (r *Recorder) countEnds(events []activity.Event) {
	for _, e := range events {
		if e.Type.Subject() == activity.ExecSubject {
			r.o.OnUse(e.Workload, e.Type)
		}
	}
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// programOf returns the name of a program without its directory.
func programOf(args []string) string {
	if len(args) == 0 || args[0] == "" {
		return ""
	}
	return clean(path.Base(args[0]), maxProgram)
}

// clean returns the first characters of a text, with those replaced that could do
// something to a terminal or to a line of a log.
func clean(s string, limit int) string {
	var b strings.Builder
	for _, c := range s {
		if limit--; limit < 0 {
			break
		}
		if unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp) {
			c = unicode.ReplacementChar
		}
		b.WriteRune(c)
	}
	return b.String()
}

// recordedPath returns a path as it is recorded.
func recordedPath(p string) string {
	p = clean(p, maxPath)
	if len(p) <= maxPath {
		return p
	}
	end := maxPath
	for !utf8.RuneStart(p[end]) {
		end--
	}
	return p[:end]
}
