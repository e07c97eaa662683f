package shim

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// errLinkLost ends every request that was open on a link when it broke.
var errLinkLost = errors.New("the session was lost")

// maxEvents is how many messages one request can get: queued, started, answer.
const maxEvents = 3

// event is a message about one request; answer is nil for a note.
type event struct {
	turn   Turn
	answer *Answer
}

// link is one byte stream to the program, from its welcome until it breaks.
type link struct {
	stream   io.ReadWriteCloser
	channel  *Channel // on the stream
	boot     string
	version  int           // what the program speaks: requests that differ by it ask here
	answered func()        // called at each answer
	lost     chan struct{} // closed when the link is over

	writeMu sync.Mutex // guards writing to channel; a write is bounded

	// mu guards what follows.
	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan event
	check   *time.Timer // of the engine's word on the container; nil when none is due
	err     error       // why it is over
}

func newLink(stream io.ReadWriteCloser, channel *Channel, welcome Welcome, answered func()) *link {
	return &link{
		stream: stream, channel: channel, boot: welcome.Boot, version: welcome.Version, answered: answered,
		lost:    make(chan struct{}),
		waiting: make(map[uint64]chan event),
	}
}

// isLost says whether the link is over.
func (l *link) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// fail ends the link, once. Whoever waits on it sees lost.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	close(l.lost)
	l.stream.Close()
}

// ask sends a request and gives the channel on which its events come. The
// caller drops it with forget.
func (l *link) ask(r Request) (id uint64, events <-chan event, err error) {
	ch := make(chan event, maxEvents)
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return 0, nil, errLinkLost
	}
	l.next++
	r.ID = l.next
	l.waiting[r.ID] = ch
	if _, can := l.stream.(Checker); can && l.check == nil {
		l.checkLater(firstCheck)
	}
	l.mu.Unlock()
	if err := l.tell(r); err != nil {
		l.forget(r.ID)
		return 0, nil, err
	}
	return r.ID, ch, nil
}

// tell sends a request and expects nothing. Only errTooLarge leaves the link
// as it was.
func (l *link) tell(r Request) error {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	watchdog := time.AfterFunc(writeTimeout, func() {
		l.fail(fmt.Errorf("%w: the peer does not read", errLinkLost))
	})
	defer watchdog.Stop()
	err := l.channel.Write(KindRequest, r)
	if err == nil || errors.Is(err, errTooLarge) {
		return err
	}
	l.fail(err)
	return errLinkLost
}

// forget drops a request: what still comes for it is ignored.
func (l *link) forget(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
}

// read hands out what the program says until the stream ends.
func (l *link) read() {
	for {
		f, err := l.channel.Read()
		if err != nil {
			l.fail(err)
			return
		}
		if err := l.dispatch(f); err != nil {
			l.fail(err)
			return
		}
	}
}

// dispatch hands one message to whoever waits for it.
func (l *link) dispatch(f Frame) error {
	if f.Kind == KindNote {
		note, err := Decode[Note](f, KindNote)
		if err != nil {
			return err
		}
		return l.deliver(note.ID, event{turn: note.Turn})
	}
	answer, err := Decode[Answer](f, KindAnswer)
	if err != nil {
		return err
	}
	l.answered()
	return l.deliver(answer.ID, event{answer: &answer})
}

func (l *link) deliver(id uint64, e event) error {
	l.mu.Lock()
	ch := l.waiting[id]
	if e.answer != nil {
		delete(l.waiting, id)
	}
	l.mu.Unlock()
	if ch == nil {
		return nil
	}
	select {
	case ch <- e:
		return nil
	default:
		return fmt.Errorf("%w: too many messages for request %d", ErrProtocol, id)
	}
}
