package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/hostler/hostler/internal/backoff"
)

// temporaryCodes are the codes of errors that end by themselves: what follows something
// through lost connections makes such a request again. All other codes are final.
var temporaryCodes = []Code{CodeEngineUnavailable, CodeNotReady, CodeStorageUnavailable, CodeTimeout, CodeWrongVersion}

// temporaryStatuses are those of answers without a code: of a proxy whose server does
// not answer.
var temporaryStatuses = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// IsTemporary reports whether the cause of the error ends by itself, so that the
// request may succeed later.
func (e *Error) IsTemporary() bool {
	if e.Code == "" {
		return slices.Contains(temporaryStatuses, e.Status)
	}
	return slices.Contains(temporaryCodes, e.Code)
}

// isTemporary is IsTemporary of any error of a request: also no answer is temporary.
func isTemporary(err error) bool {
	if answer, answered := errors.AsType[*Error](err); answered {
		return answer.IsTemporary()
	}
	return !errors.Is(err, errRedirect) && !errors.Is(err, errCredential)
}

// defaultLostTimeout is the LostTimeout of a command that has none.
const defaultLostTimeout = 5 * time.Minute

// loss counts the consecutive failures of a connection that is made again.
type loss struct {
	wait    *backoff.Retries
	timeout time.Duration
	since   time.Time // of the first failure; zero without one
}

func (cmd *Command) newLoss() *loss {
	return &loss{wait: retries.Retries(), timeout: cmp.Or(cmd.LostTimeout, defaultLostTimeout)}
}

// reset is called after progress.
func (l *loss) reset() {
	l.wait.Reset()
	l.since = time.Time{}
}

// isFinal reports whether the request of the error is not made again.
func (l *loss) isFinal(err error) bool {
	if l.since.IsZero() {
		l.since = time.Now()
	}
	return err != nil && (!isTemporary(err) || time.Since(l.since) > l.timeout)
}

// retry waits before a request is made again, unless its error is final.
func (l *loss) retry(ctx context.Context, err error) error {
	if l.isFinal(err) {
		return err
	}
	return l.wait.Sleep(ctx)
}
