package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hostler/hostler/pool"
)

// sqlStates maps PostgreSQL's error codes to errors of this package. The first
// prefix that matches counts.
var sqlStates = []struct {
	prefix string
	err    error
}{
	{"08", ErrUnavailable},    // the connection
	{"57P", ErrUnavailable},   // the server is stopping or starting
	{"53300", ErrUnavailable}, // it has too many connections
	{"25P03", ErrUnavailable}, // the session was idle in a transaction for too long
	{"25006", ErrUnavailable}, // it is a standby now, and another server is the primary
	{"53100", ErrDiskFull},
	{"55P03", ErrLocked},
	{"42501", ErrReadOnly}, // permission denied
	{"XX001", ErrCorrupt},
	{"XX002", ErrCorrupt},
	{"40", errSerialization}, // serialization failure or deadlock
}

// constraints maps unique indexes to the error of a row that violates them.
var constraints = map[string]error{
	"claims_live":      pool.ErrConflict, // the tenant has another live claim
	"claims_container": pool.ErrInUse,
	"containers_claim": pool.ErrInUse,
	"claims_pkey":      ErrExists,
	"containers_pkey":  ErrExists,
	"runs_pkey":        ErrExists,
	// Another change has recorded the same request: it is this one's result.
	"memory_requests_pkey": errSerialization,
}

const uniqueViolation = "23505"

// translatePostgres turns an error of PostgreSQL, or of the connection to it,
// into one of this package, and keeps its text.
func translatePostgres(err error) error {
	if foreign, ok := errors.AsType[*pgconn.PgError](err); ok {
		return translateServerError(err, foreign)
	}
	if errors.Is(err, ErrUnavailable) || !isConnectionError(err) {
		return err
	}
	return fmt.Errorf("%w (%w)", ErrUnavailable, err)
}

func translateServerError(err error, foreign *pgconn.PgError) error {
	if ours, ok := constraints[foreign.ConstraintName]; ok && foreign.Code == uniqueViolation {
		return fmt.Errorf("%w (%w)", ours, err)
	}
	for _, s := range sqlStates {
		if strings.HasPrefix(foreign.Code, s.prefix) && !errors.Is(err, s.err) {
			return fmt.Errorf("%w (%w)", s.err, err)
		}
	}
	return err
}

// isConnectionError reports whether a connection could not be established, or
// was lost. An ended context breaks connections too; that is not a connection
// error.
func isConnectionError(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err)
}
