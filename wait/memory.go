package wait

import (
	"context"
	"maps"
	"time"

	"github.com/hostler/hostler/hooks"
)

// changed does what follows from a change that this server has made. The others
// learn of it by its events.
func (s *Service) changed(w Wait) {
	switch {
	case w.State == Waiting:
		s.setTimer(w.Key(), w.Round, w.granted())
	case w.State.IsOpen():
		s.markFresh(w)
		s.keys.Add(w.Key())
	default:
		s.ended(w.Key())
		if s.o.OnEnd != nil {
			s.o.OnEnd(w)
		}
	}
}

// ended wakes the callers of a wait that has ended, and removes what is kept of it.
func (s *Service) ended(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.callers[k.ID] {
		notify(c)
	}
	delete(s.timers, k.ID)
	delete(s.fresh, k.ID)
	s.keys.Forget(k)
}

// cancelHooks ends the hooks of a wait.
func (s *Service) cancelHooks(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancels[k.ID]; cancel != nil {
		cancel(errCancelled)
	}
}

// runningHooks returns what cancels the hooks of each wait.
func (s *Service) runningHooks() map[string]context.CancelCauseFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.cancels)
}

// setTimer has a wait worked on when its time is over.
func (s *Service) setTimer(k Key, round int, left time.Duration) {
	at := time.Now().Add(left)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.timers[k.ID]; !ok || t.round < round || t.round == round && at.Before(t.at) {
		s.timers[k.ID] = timer{round, at}
		s.keys.AddAfter(k, left)
	}
}

// addTimer is setTimer for a time that was computed by the database's clock. It
// changes no timer of the round: that clock may have been set since.
func (s *Service) addTimer(k Key, round int, left time.Duration) {
	s.mu.Lock()
	t, ok := s.timers[k.ID]
	s.mu.Unlock()
	if !ok || t.round < round {
		s.setTimer(k, round, left)
	}
}

// dueAt returns the deadline of a wait by this machine's clock.
func (s *Service) dueAt(w Wait, left time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.timers[w.ID]
	if !ok || t.round != w.Round {
		t = timer{w.Round, time.Now().Add(left)}
		s.timers[w.ID] = t
	}
	return t.at
}

// markFresh records that no server has begun the hooks of a wait's state.
func (s *Service) markFresh(w Wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh[w.ID] = freshKey(w, hookPoints[w.State].point)
}

// isFresh reports whether no server has begun the hooks of a point, once.
func (s *Service) isFresh(w Wait, p hooks.Point) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.fresh[w.ID] == freshKey(w, p)
	delete(s.fresh, w.ID)
	return is
}

func freshKey(w Wait, p hooks.Point) string { return w.round() + "/" + string(p) }

// addCancel registers the hooks of a wait, until the returned function is called.
func (s *Service) addCancel(id string, cancel context.CancelCauseFunc) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels[id] = cancel
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, id)
	}
}

// subscribe returns a channel that receives when a wait may have ended, until stop is
// called.
func (s *Service) subscribe(id string) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers[id] == nil {
		s.callers[id] = map[chan struct{}]bool{}
	}
	s.callers[id][c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.callers[id], c)
		if len(s.callers[id]) == 0 {
			delete(s.callers, id)
		}
	}
}

// wakeAll wakes the callers of all waits: events were missed.
func (s *Service) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, callers := range s.callers {
		for c := range callers {
			notify(c)
		}
	}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
