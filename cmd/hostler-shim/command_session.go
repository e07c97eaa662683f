package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// handleCommand attaches to a command, which it starts if it is new.
func (c *session) handleCommand(in *shim.Incoming) error {
	r := in.Request
	if r.Command == nil || r.Streams != 2 || !runtime.IsRequestID(r.RunID) ||
		r.Command.After < 0 && (r.Command.After != runtime.ControlOnly || r.Run != nil) ||
		r.Run != nil && (len(r.Run.Args) == 0 || r.Run.Timeout < 0 || r.Run.Grace < 0) {
		return errInvalidRequest
	}
	s := c.supervisor
	found, created, err := s.commands.open(r)
	if err != nil {
		go respond(in, shim.Response{}, err) // ends with the write, which has a timeout
		return nil
	}
	if created {
		go s.runCommand(found, *r.Run, r.Command) // ends with the command
	}
	go func() { respond(in, shim.Response{}, s.serveCommand(found, in)) }() // ends with the attachment
	return nil
}

// serveCommand serves an attachment to a command until it ends. It waits until the
// command has started.
func (s *supervisor) serveCommand(c *tenantCommand, in *shim.Incoming) error {
	select {
	case <-c.ready:
	case <-in.Stream(shim.CommandStream).Done():
		return errSessionLost
	}
	c.mu.Lock()
	startErr := c.startErr
	c.mu.Unlock()
	if startErr != nil {
		return startErr
	}
	a, start, err := c.attach(in)
	if err != nil {
		return err
	}
	if err := shim.WriteJSONMessage(in.Stream(shim.CommandStream), shim.MessageStart, start); err != nil {
		s.detach(a, err)
		return err
	}
	// Both goroutines end with the streams, which end with the response.
	go func() { s.detach(a, a.receive()) }()
	go func() {
		if err := a.receiveInput(); errors.Is(err, io.EOF) {
			c.closeInput(a)
		} else if err != nil {
			s.detach(a, err)
		}
	}()
	err = a.serve()
	s.detach(a, err)
	if errors.Is(err, io.EOF) {
		err = nil // the server has closed it
	}
	return err
}

// detach ends an attachment. A command that has ended is forgotten if its client
// knows that and has everything.
func (s *supervisor) detach(a *attachment, reason error) {
	switch detached, forget := a.detach(reason); {
	case forget:
		s.commands.remove(a.command)
	case detached && !a.command.isRunning():
		s.commands.keep(a.command)
	}
}

// handleCommands lists the commands of a claim.
func (c *session) handleCommands(in *shim.Incoming) error {
	go respond(in, shim.Response{Commands: c.supervisor.commands.list(in.Request.Fence)}, nil) // ends with the write
	return nil
}

// errStillEnding has the server ask again.
var errStillEnding = (&shim.WireError{Code: shim.CodeBusy, Detail: "the command is still ending"}).Err()

// handleEndCommand ends a command and responds when it has ended.
func (c *session) handleEndCommand(in *shim.Incoming) error {
	found, err := c.supervisor.commands.get(in.Request.Fence, in.Request.RunID)
	if err != nil {
		go respond(in, shim.Response{}, err) // ends with the write
		return nil
	}
	go func() { // ends with the command, with the session, or in time
		found.endWithin(maxGrace)
		timer := time.NewTimer(shim.EndWait)
		defer timer.Stop()
		select {
		case <-found.done:
			respond(in, shim.Response{}, found.endError())
		case <-timer.C:
			respond(in, shim.Response{}, errStillEnding)
		case <-in.Closed():
		}
	}()
	return nil
}

// handleEndCommands ends all commands and responds when they have ended.
func (c *session) handleEndCommands(in *shim.Incoming) error {
	if in.Request.Grace < 0 || in.Request.Fence <= shim.NoFence {
		return errInvalidRequest
	}
	go func() { respond(in, shim.Response{}, c.supervisor.endCommands(in)) }() // ends with the commands, or in time
	return nil
}

func (s *supervisor) endCommands(in *shim.Incoming) error {
	grace := min(in.Request.Grace, maxGrace)
	running, err := s.commands.endAll(in.Request.Fence, grace)
	if err != nil {
		return err
	}
	timer := time.NewTimer(grace + commandStartTimeout + shim.KillTimeout + 2*workerMargin)
	defer timer.Stop()
	for _, c := range running {
		select {
		case <-c.done:
		case <-timer.C:
			return fmt.Errorf("%w: a command does not end", runtime.ErrTainted)
		case <-in.Closed():
			return errSessionLost
		}
	}
	return s.commands.uncertain()
}

// endError returns an error if processes of the command may be left.
func (c *tenantCommand) endError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil || c.ended.Error == nil || c.ended.Error.Code != shim.CodeTainted {
		return nil
	}
	return c.ended.Error.Err()
}
