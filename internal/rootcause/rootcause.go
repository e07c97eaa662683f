// Package rootcause separates why something failed from what was being done.
//
// An error is wrapped by each layer with what that was doing, outermost first:
// "start: start main: open a session: no such program". A record that people read
// has the cause, and the layers as a list of their own.
package rootcause

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// module is the path that the types of our own errors are below.
const module = "github.com/hostler/hostler/"

// minCauseWords is how many words explain a failure by themselves. A cause with
// fewer, such as "EOF", keeps what was being done.
const minCauseWords = 4

// maxDepth bounds the layers that are separated.
const maxDepth = 32

// wrappers are the types of the standard library's own wraps.
var wrappers = map[reflect.Type]bool{
	reflect.TypeOf(fmt.Errorf("%w", io.EOF)):           true,
	reflect.TypeOf(fmt.Errorf("%w%w", io.EOF, io.EOF)): true,
	reflect.TypeOf(errors.Join(io.EOF)):                true,
}

// Of returns the innermost cause of err, and what was being done when it occurred,
// outermost first. Together they are the text of err. The text of errors of other
// modules, such as that of a failed connection, is never divided. Of errors that
// were joined, the first is the cause, and the texts of the others end the chain.
func Of(err error) (cause string, chain []string) {
	if err == nil {
		return "", nil
	}
	var others []string
	for range maxDepth {
		doing, more, inner := peel(err)
		if inner == nil {
			break
		}
		if doing != "" {
			chain = append(chain, doing)
		}
		err, others = inner, append(more, others...)
	}
	cause = strings.TrimRight(err.Error(), ": \n")
	if last := len(chain) - 1; last >= 0 && len(strings.Fields(cause)) < minCauseWords {
		cause, chain = chain[last]+": "+cause, chain[:last]
	}
	return cause, append(chain, others...)
}

// peel returns the error that err wraps, what was being done, and the texts of the
// errors that were joined to it. inner is nil if err is the cause: if it wraps
// nothing, or has more to say than what it wraps.
func peel(err error) (doing string, others []string, inner error) {
	if !isWrapper(err) {
		return "", nil, nil
	}
	switch w := err.(type) { //nolint:errorlint // one layer of it is looked at
	case interface{ Unwrap() error }:
		inner = w.Unwrap()
	case interface{ Unwrap() []error }:
		all := w.Unwrap()
		if reflect.TypeOf(err) == reflect.TypeOf(errors.Join(io.EOF)) {
			for _, other := range all[1:] {
				others = append(others, other.Error())
			}
			return "", others, all[0]
		}
		inner = all[len(all)-1]
	}
	if inner == nil {
		return "", nil, nil
	}
	doing, isSuffix := strings.CutSuffix(err.Error(), inner.Error())
	if !isSuffix || doing != "" && !strings.HasSuffix(doing, ": ") {
		return "", nil, nil
	}
	return strings.TrimSuffix(doing, ": "), nil, inner
}

func isWrapper(err error) bool {
	t := reflect.TypeOf(err)
	if wrappers[t] {
		return true
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return strings.HasPrefix(t.PkgPath()+"/", module)
}
