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

// sqlStates says what PostgreSQL's error codes mean to us, the first that
// begins the code.
var sqlStates = []struct {
	prefix string
	err    error
}{
	{"08", ErrUnavailable},    // the connection
	{"57P", ErrUnavailable},   // the server is stopping or starting
	{"53300", ErrUnavailable}, // it has too many connections
	{"25P03", ErrUnavailable}, // it did not hear of us for too long within a change
	{"25006", ErrUnavailable}, // it is a standby now, and another one is the server
	{"53100", ErrDiskFull},
	{"55P03", ErrLocked},
	{"42501", ErrReadOnly}, // we may not
	{"XX001", ErrCorrupt},
	{"XX002", ErrCorrupt},
	{"40", errSerialization}, // two changes waited for each other, and this one was given up
}

// constraints says what it means that a row would have been the second of its
// kind, by the index that forbids it.
var constraints = map[string]error{
	"claims_live":      pool.ErrConflict, // the tenant has another live claim
	"claims_container": pool.ErrInUse,
	"containers_claim": pool.ErrInUse,
	"claims_pkey":      ErrExists,
	"containers_pkey":  ErrExists,
	"runs_pkey":        ErrExists,
}

const uniqueViolation = "23505"

// translatePostgres turns an error of PostgreSQL, or of the way there, into
// one of ours, keeping its text.
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

// isConnectionError says whether a connection could not be had, or was lost. A context
// that has ended breaks connections too; then that is what is to be said.
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
