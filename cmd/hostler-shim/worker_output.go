package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// kindOutput asks a worker what its command has printed so far, and answers that.
const kindOutput shim.Kind = 'o' // workerOutput

// workerOutput is what the command RunID has printed. It is empty in a question, and
// if the worker runs another command.
type workerOutput struct {
	RunID  string         `json:"key"`
	Stdout runtime.Output `json:"stdout,omitzero"`
	Stderr runtime.Output `json:"stderr,omitzero"`
}

// outputTimeout bounds how long init waits for a worker's answer. A process of the
// command's user may have stopped the worker.
const outputTimeout = time.Second

// question is a question for the output of a command. Callers share one: a worker
// that does not answer is sent no further ones.
type question struct {
	runID  string
	done   chan struct{} // closed when answer is set, or the command has ended
	answer workerOutput
}

// errNoAnswer is the error for a worker that does not answer.
var errNoAnswer = fmt.Errorf("%w: the worker does not answer", runtime.ErrUnavailable)

// printed returns what the command that the worker runs has printed so far. The
// answer has no ID if the command has ended instead. It waits for the answer as long
// as limit.
func (p *workerProcess) printed(runID string, limit time.Duration) (workerOutput, error) {
	q, err := p.ask(runID)
	if err != nil {
		return workerOutput{}, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-q.done:
		return q.answer, nil
	case <-timeout.C:
		return workerOutput{}, errNoAnswer
	}
}

// ask sends the question, unless one is open. It waits for no worker: of one that is
// stopped, the socket may be full, and the end of its command needs the mutex.
func (p *workerProcess) ask(runID string) (*question, error) {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	if !p.answering {
		return nil, errors.New("it runs no command")
	}
	if p.question == nil {
		p.question = &question{runID: runID, done: make(chan struct{})}
		go p.sendQuestion(runID) // ends when the worker reads, or the socket is closed after the command
	}
	return p.question, nil
}

// sendQuestion sends a question. Without it there is no answer: the worker is then
// not used again.
func (p *workerProcess) sendQuestion(runID string) {
	_ = shim.WriteFrame(p.socket, kindOutput, workerOutput{RunID: runID})
}

// deliver hands an answer to those who wait for it.
func (p *workerProcess) deliver(f shim.Frame) error {
	m, err := shim.Decode[workerOutput](f, kindOutput)
	if err != nil {
		return err
	}
	p.askMu.Lock()
	defer p.askMu.Unlock()
	if p.question == nil || p.question.runID != m.RunID {
		return shim.ErrProtocol
	}
	p.question.answer = m
	close(p.question.done)
	p.question = nil
	return nil
}

// beginAnswers allows questions for the output.
func (p *workerProcess) beginAnswers() {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	p.answering = true
}

// endAnswers allows no further question, and reports whether an answer may be in
// transit. It would be taken for one about the next command.
func (p *workerProcess) endAnswers() (open bool) {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	p.answering = false
	if p.question == nil {
		return false
	}
	close(p.question.done) // the caller finds the outcome
	p.question = nil
	return true
}

// answerOutput answers a question of init.
func (w *worker) answerOutput(j *job, f shim.Frame) error {
	m, err := shim.Decode[workerOutput](f, kindOutput)
	if err != nil {
		return err
	}
	if m.RunID == j.spec.RunID {
		m.Stdout, m.Stderr = j.printed()
	}
	w.write(kindOutput, m)
	return nil
}

// printed returns what the command has printed so far.
func (j *job) printed() (stdout, stderr runtime.Output) {
	j.reapMu.Lock()
	s := j.streams
	j.reapMu.Unlock()
	return s.out.printed(), s.err.printed()
}

// printed returns what was read so far; of a command that has not started, nothing.
func (d *drain) printed() runtime.Output {
	if d == nil {
		return runtime.Output{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.capture.Output()
}

// printed returns what a run has printed so far. The output of a run that has ended
// is that of its outcome: at no moment is it less than before. It waits as long as
// limit for the worker's answer, and for the outcome.
func (s *supervisor) printed(r *run, limit time.Duration) (runtime.Result, error) {
	p, ending := s.runs.workerOf(r)
	if p != nil {
		o, err := p.printed(r.id, limit)
		if err != nil {
			return runtime.Result{}, err
		}
		if o.RunID != "" {
			return runtime.Result{Stdout: o.Stdout, Stderr: o.Stderr}, nil
		}
	} else if !ending {
		select {
		case <-r.done: // it was never run
		default:
			return runtime.Result{}, nil // it waits in the queue
		}
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-r.done:
	case <-timeout.C:
		return runtime.Result{}, fmt.Errorf("%w: the command ends", runtime.ErrUnavailable)
	}
	outcome := s.runs.response(r)
	if outcome.Error != nil || outcome.Result == nil {
		return runtime.Result{}, nil // a later request returns why
	}
	return runtime.Result{Stdout: outcome.Result.Stdout, Stderr: outcome.Result.Stderr}, nil
}
