package runtime

import (
	"context"
	"strings"
)

// Limits of what programs in a container ask of the server. They are those of
// one request, and of one container.
const (
	// MaxRequestBody bounds the body of a request, and that of a response: a value
	// of 64 KiB and what is around it.
	MaxRequestBody = 72 << 10
	// MaxRequestID and MaxRequestName bound the ID and the name of a request, in
	// bytes.
	MaxRequestID   = 64
	MaxRequestName = 64
	// MaxRequests bounds the requests of a container that are handled at once.
	MaxRequests = 32
)

// IsRequestID reports whether a text can be the ID of a request: 1 to MaxRequestID
// letters, digits and . _ -, in any order. Whatever handles a request accepts these.
func IsRequestID(id string) bool { return isWord(id, MaxRequestID) }

// IsRequestName reports whether a text can be the name of a request.
func IsRequestName(name string) bool { return isWord(name, MaxRequestName) }

func isWord(text string, max int) bool {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return text != "" && len(text) <= max && strings.Trim(text, characters) == ""
}

// Requester serves the requests that programs in containers send to the server.
type Requester interface {
	// ServeRequests sends a container the fence of its claim, and calls handle for
	// each request of a program in it, until ctx ends or the container cannot be
	// reached any more: where the engine leaves the connection open, it notices that
	// within two minutes. It returns when no handle is running. The error is the
	// context's cause, ErrUnavailable when the connection was lost, or one of those
	// of Exec. ErrStaleFence means that the container has another claim by now.
	// ErrUnsupported means that the container sends no requests: an older server
	// created it.
	//
	// Several servers may serve a container. Each request reaches one of them. A
	// call for a container that is served already takes the place of the earlier
	// one, which continues until its ctx ends.
	//
	// Everything in a Request but Fence, FromHook and RunID is from the tenant. A tenant
	// may have taken over the program that sends it: then those are, too. More
	// requests than an intact program sends cost the container its connection.
	//
	// The requests of a command's processes go to the Requests of the command instead,
	// if it has them. They are refused when a call with a greater fence than the
	// command's has reached the container, and when the command is over.
	ServeRequests(ctx context.Context, id string, fence int64, handle RequestHandler) error
}

// RequestHandler handles a request. It calls respond once, and may continue
// after that. It may be called by many goroutines, MaxRequests for each
// container. ctx ends when the container cannot be reached any more: a program
// without a response sends the request again, with the same ID.
type RequestHandler func(ctx context.Context, r Request, respond func(Response))

// Request is what a program in a container asks of the server.
type Request struct {
	// ID is the program's. A request that is sent again has the same.
	ID   string
	Name string // what is asked
	Body []byte // as the program sent it, at most MaxRequestBody
	// Fence is the greatest fence that the container had when it received the
	// request from the program.
	Fence int64
	// FromHook reports whether the process belongs to a command of Exec, and RunID
	// is that of the command.
	FromHook bool
	RunID    string
}

// Response answers a Request. Without a Problem, it succeeded.
type Response struct {
	Body    []byte // at most MaxRequestBody
	Problem *Problem
}

// Problem is why a request failed.
type Problem struct {
	Code   ProblemCode `json:"code"`
	Detail string      `json:"detail,omitempty"` // a sentence
}

// ProblemCode identifies a problem. Services have others of their own.
type ProblemCode string

// The problems of requests in general.
const (
	// ProblemPending means that the request is in progress: the program sends it again at
	// once, with the same ID.
	ProblemPending ProblemCode = "pending"
	// ProblemUnavailable means that no server could be reached, or that the
	// connection was lost: the program sends the request again, with the same ID.
	ProblemUnavailable ProblemCode = "unavailable"
	// ProblemBusy means that the container has sent too many requests.
	ProblemBusy ProblemCode = "busy"
	// ProblemNoClaim means that the container has no active claim, or another one
	// by now.
	ProblemNoClaim ProblemCode = "no_claim"
	// ProblemDenied means that this process may not ask for that.
	ProblemDenied ProblemCode = "denied"
	// ProblemUnsupported means that the server knows no such request.
	ProblemUnsupported ProblemCode = "unsupported"
	// ProblemInvalid means that the request is malformed.
	ProblemInvalid ProblemCode = "invalid"
	// ProblemFailed means that the server could not do what was asked.
	ProblemFailed ProblemCode = "failed"
)
