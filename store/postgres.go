package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// How PostgreSQL is used.
const (
	// minPostgresVersion is the first version that reports the status of a
	// transaction whose answer was lost.
	minPostgresVersion = 130000
	// poolSize is the number of connections for changes, and of those for
	// reads, unless the URL sets pool_max_conns.
	poolSize = 8
	// leasePoolSize is the number of connections for leases. Two are in use at a
	// time; more are needed while lost ones are being closed.
	leasePoolSize = 4
	// connectTimeout bounds one attempt to connect, unless the URL sets
	// connect_timeout.
	connectTimeout = 5 * time.Second
	// pingTimeout bounds the check of a connection that was not used for a second,
	// unless the URL sets pool_ping_timeout. A connection can be lost silently.
	pingTimeout = time.Second
)

var postgresDialect = dialect{
	kind: "PostgreSQL", types: sqlTypes{Key: `TEXT COLLATE "C"`, Int: "BIGINT", Blob: "BYTEA", Real: "DOUBLE PRECISION"},
	hasTables:         `SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta')`,
	info:              `SELECT current_setting('server_version'), pg_database_size(current_database())`,
	replace:           "name another schema with search_path in the store's URL",
	snapshotIsolation: sql.LevelRepeatableRead, readTimeout: txTimeout,
	clockQuery: `SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint`,
}

// isPostgres reports whether the dsn is the URL of a PostgreSQL database.
func isPostgres(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// openPostgres opens the database at the URL. When it fails, closeAll closes
// what it has opened.
func (db *DB) openPostgres(ctx context.Context, dsn string) error {
	db.dialect = postgresDialect
	config, err := postgresConfig(dsn)
	if err != nil {
		return err
	}
	write, err := db.connect(ctx, config, durableCommits)
	if err != nil {
		return err
	}
	leases, err := db.connect(ctx, leaseConfig(config), shortCommits)
	if err != nil {
		return err
	}
	schema, err := checkPostgres(ctx, write)
	if err != nil {
		return err
	}
	if err := preparePostgres(ctx, config.ConnConfig, schema, db.dialect); err != nil {
		return err
	}
	read, err := db.connect(ctx, config, readOnly)
	if err != nil {
		return err
	}
	db.read.DB = stdlib.OpenDBFromPool(read)
	db.closers = append(db.closers, db.read.Close)
	if err := db.primeBuffer(ctx); err != nil {
		return err
	}
	listener := startListener(db, config.ConnConfig, schema)
	db.closers = append(db.closers, listener.stop)
	db.lockExclusive = func(ctx context.Context) error { return db.lockPostgres(ctx, config.ConnConfig, schema) }
	db.writer = &postgresWriter{pool: write, schema: schema, self: &db.self, publish: db.buffer.add, catchUp: db.catchUp}
	db.groups = &deliveryGroups{writer: db.writer}
	// Renewals do not wait for a connection that a change uses.
	db.leases = &postgresWriter{pool: leases, schema: schema, self: &db.self, catchUp: db.catchUp, stopsWithCaller: true}
	return nil
}

// leaseConfig returns the configuration of the connections for leases.
func leaseConfig(config *pgxpool.Config) *pgxpool.Config {
	config = config.Copy()
	config.MaxConns = leasePoolSize
	config.ConnConfig.ConnectTimeout = min(config.ConnConfig.ConnectTimeout, connectTimeout)
	return config
}

// connect opens a pool of connections, each prepared with the statement, and
// checks that one is available.
func (db *DB) connect(ctx context.Context, config *pgxpool.Config, prepare string) (*pgxpool.Pool, error) {
	config = config.Copy()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		_, err := conn.Exec(ctx, prepare)
		return err
	}
	config.BeforeClose = func(conn *pgx.Conn) {
		if conn.IsClosed() { // it failed: the driver would wait for the server's answer
			_ = conn.PgConn().Conn().Close()
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	db.closers = append(db.closers, func() error { pool.Close(); return nil })
	return pool, pool.Ping(ctx)
}

// How connections are prepared. Whatever the database server's defaults are, an
// acknowledged commit is on its disk, and a Hostler server that is stopped in
// the middle of a change does not block the others for longer than this. Nor does
// an attempt to renew a lease that lost its connection block the next one.
const (
	durableCommits = `SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '10s'`
	shortCommits   = `SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '2s'`
	readOnly       = `SET default_transaction_read_only = on; SET idle_in_transaction_session_timeout = '60s'`
)

// postgresConfig parses the URL. It removes the password first, so that no
// parse error can contain it.
func postgresConfig(dsn string) (*pgxpool.Config, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("not a URL; are the password's special characters percent-encoded?")
	}
	query := u.Query()
	password, given := u.User.Password()
	if p := query.Get("password"); p != "" {
		password, given = p, true
	}
	query.Del("password")
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	sized := query.Has("pool_max_conns")
	hasTimeout := query.Has("connect_timeout")
	u.RawQuery = query.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	if given {
		config.ConnConfig.Password = password
	}
	if !sized {
		config.MaxConns = poolSize
	}
	if !hasTimeout {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = pingTimeout
	}
	// Of a URL with several hosts, the writable one is used. After a failover
	// the old one is no longer writable.
	if config.ConnConfig.ValidateConnect == nil {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "hostler"
	}
	return config, nil
}

// Redact returns the dsn without passwords, for display.
func Redact(dsn string) string {
	if !isPostgres(dsn) {
		return dsn
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "postgres://..."
	}
	query := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		if query.Has(secret) {
			query.Set(secret, "xxxxx")
		}
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}

// schemaRef identifies the schema that holds the tables. Several installations
// may share a database, each with its own schema.
type schemaRef struct {
	schema int64
	server string // this server's id among those that use it
}

// channel returns the name of the channel on which changes are announced.
func (p schemaRef) channel() string { return fmt.Sprintf("hostler_%d", p.schema) }

// key returns the number of an advisory lock. Two locks with the same number
// would only wait for each other unnecessarily.
func (p schemaRef) key(kind, name string) int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "hostler %d %s %s", p.schema, kind, name) // a hash never fails
	return int64(h.Sum64())                                         //nolint:gosec // any number will do
}

const selectSchemaRef = `SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
	current_setting('server_encoding'),
	coalesce((SELECT oid::bigint FROM pg_namespace WHERE nspname = current_schema()), 0)`

// checkPostgres refuses a database server that lacks what is needed.
func checkPostgres(ctx context.Context, pool *pgxpool.Pool) (schemaRef, error) {
	p := schemaRef{server: uuid.NewString()}
	var number int64
	var version, encoding string
	if err := pool.QueryRow(ctx, selectSchemaRef).Scan(&number, &version, &encoding, &p.schema); err != nil {
		return p, fmt.Errorf("read the server's version: %w", err)
	}
	if number < minPostgresVersion {
		return p, fmt.Errorf("PostgreSQL %s is too old: version %d or newer is required", version, minPostgresVersion/10000)
	}
	if encoding != "UTF8" {
		return p, fmt.Errorf("the database's encoding is %s: UTF8 is required", encoding)
	}
	if p.schema == 0 {
		return p, fmt.Errorf("no schema of the connection's search_path exists")
	}
	return p, nil
}

// lockSchema has servers create the tables one at a time. The last one has to see
// what the first one did, whatever the database's default isolation is.
const lockSchema = `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(%d)`

func preparePostgres(ctx context.Context, config *pgx.ConnConfig, p schemaRef, d dialect) error {
	db := stdlib.OpenDB(*config)
	return errors.Join(prepareSchema(ctx, db, d, fmt.Sprintf(lockSchema, p.key("schema", ""))), db.Close())
}
