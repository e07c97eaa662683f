package wait

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/hostler/hostler/internal/jsonvalue"
	"github.com/hostler/hostler/runtime"
)

// Request is a request to wait.
type Request struct {
	// ID identifies the request: one that is repeated returns the same wait, also
	// after its end. It is that of a program in a container (runtime.IsRequestID), or
	// of a caller of the API. Empty: it is not repeated.
	ID string
	// Name, if any, is that of the signals for the wait. A claim has at most one
	// open wait of a name: another request for it returns that one.
	Name      string
	Type      string
	Timeout   time.Duration
	OnTimeout Decision // empty: Escalate
	Context   json.RawMessage
}

var (
	idPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)
	typePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
)

// wait returns the record of the wait that the request begins. A request with an ID
// may be a repeated one of a server that permitted more: that its timeout is too great
// is for the store to judge.
func (r Request) wait(claim string, maxTimeout time.Duration) (Wait, error) {
	context, err := compactJSON("context", r.Context)
	switch {
	case err != nil:
		return Wait{}, err
	case r.ID != "" && !runtime.IsRequestID(r.ID) && !idPattern.MatchString(r.ID):
		return Wait{}, fmt.Errorf("%w: request_id must be at most 128 letters, digits and . _ : -", ErrInvalid)
	case !validName(r.Name):
		return Wait{}, errName
	case !typePattern.MatchString(r.Type):
		return Wait{}, fmt.Errorf("%w: type must be a lower-case word such as consensus", ErrInvalid)
	case r.OnTimeout != "" && !slices.Contains(Decisions(), r.OnTimeout):
		return Wait{}, fmt.Errorf("%w: on_timeout must be abort, retry, extend or escalate", ErrInvalid)
	}
	w := Wait{
		ID: newID(), Claim: claim, Request: r.ID, Name: r.Name, Type: r.Type,
		TimeoutMS: r.Timeout.Milliseconds(), OnTimeout: r.OnTimeout, Context: context,
	}
	if r.Timeout < time.Millisecond || r.Timeout > maxTimeout {
		w.Refused = fmt.Errorf("%w: timeout %s is not between 1ms and %s", ErrInvalid, r.Timeout, maxTimeout)
	}
	if r.ID == "" {
		return w, w.Refused
	}
	return w, nil
}

// Digest identifies what is requested: two requests with the same ID are the same if
// they have the same Digest.
func (w Wait) Digest() string {
	text, _ := json.Marshal([]any{w.Name, w.Type, w.TimeoutMS, cmp.Or(w.OnTimeout, Escalate), string(w.Context)}) // it always encodes
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

var errName = fmt.Errorf("%w: name must be at most 128 letters, digits and . _ : -", ErrInvalid)

func validName(name string) bool { return name == "" || idPattern.MatchString(name) }

// signal returns the record of a signal.
func signal(claim, name string, data json.RawMessage) (Signal, error) {
	data, err := compactJSON("data", data)
	if err != nil {
		return Signal{}, err
	}
	if !validName(name) {
		return Signal{}, errName
	}
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	return Signal{ID: newID(), Claim: claim, Name: name, Data: data}, nil
}

// compactJSON returns a JSON value without spaces, or nothing.
func compactJSON(what string, value json.RawMessage) (json.RawMessage, error) {
	compact, err := jsonvalue.Compact(value, MaxJSON)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %w", ErrInvalid, what, err)
	}
	return compact, nil
}
