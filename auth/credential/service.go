package credential

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

var _ auth.Authenticator = (*Service)(nil)

// KeyRetention is for how long the record of a key that was revoked or has expired
// is kept.
const KeyRetention = 30 * 24 * time.Hour

const (
	useInterval   = time.Minute
	pruneInterval = time.Hour
	// lastWriteTimeout bounds the write of the last uses when a server ends.
	lastWriteTimeout = 5 * time.Second
	// useBatch bounds the keys of one change.
	useBatch = 500
)

// databaseSource is the name of the database in problems.
const databaseSource = "database"

// Options are what a Service works with.
type Options struct {
	Store        Store
	Secret       []byte             // signs tokens; without one, those of this process only are accepted
	KeyFile      string             // of API keys, followed; empty for none
	BindingsFile string             // of bindings, followed; empty for none
	Tokens       auth.TokenVerifier // of other issuers; nil for none
	OwnUID       uint32             // the server's own user, an operator over a Unix socket
	Log          *slog.Logger       // nil for none
}

// Service keeps the credentials of a server. It is safe for concurrent use.
type Service struct {
	o              Options
	log            *slog.Logger
	tokenKey       []byte
	proofKey       []byte
	isShared       bool
	isUnconfigured bool // no file and no issuer
	start          time.Time

	mu     sync.RWMutex // guards memory
	memory memory
	open   atomic.Bool // as memory has it

	// reading is held while the database is read. It guards triedAt and failedAt. All
	// are times of clock, when reads began.
	reading  chan struct{}
	triedAt  int64
	failedAt int64
	readAt   atomic.Int64 // of the last one that succeeded
	newKeys  atomic.Int64 // how many requests with unknown keys wait

	followers followers
	files     []*followed // used by Load, then by Run

	problemsMu sync.Mutex // guards problems
	problems   map[string]string
}

// New returns a service that knows no credential before Load, and is not open.
func New(o Options) (*Service, error) {
	s := &Service{
		o: o, log: o.Log, isShared: o.Store.IsShared(), start: time.Now(), memory: newMemory(), reading: make(chan struct{}, 1),
		failedAt: -1, followers: followers{all: map[*follower]struct{}{}}, problems: map[string]string{},
	}
	s.isUnconfigured = o.KeyFile == "" && o.BindingsFile == "" && o.Tokens == nil
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	secret := o.Secret
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		rand.Read(secret) //nolint:errcheck // it never fails
	}
	var errs [2]error
	s.tokenKey, errs[0] = hkdf.Key(sha256.New, secret, nil, "hostler tokens of tenants", sha256.Size)
	s.proofKey, errs[1] = hkdf.Key(sha256.New, secret, nil, "hostler proofs of makers of tokens", sha256.Size)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("derive the keys of tokens: %w", err)
	}
	if o.KeyFile != "" {
		s.files = append(s.files, &followed{what: "API keys", path: o.KeyFile, limit: maxKeyFile, use: s.useKeyFile})
	}
	if o.BindingsFile != "" {
		s.files = append(s.files, &followed{what: "bindings", path: o.BindingsFile, limit: maxBindingsFile, use: s.useBindingsFile})
	}
	return s, nil
}

// Load reads the database and the files for the first time. It is called once, before
// Run and all others.
func (s *Service) Load(ctx context.Context) error {
	for _, f := range s.files {
		if _, err := f.read(); err != nil {
			return err
		}
	}
	s.readAt.Store(-1)
	s.reading <- struct{}{}
	defer func() { <-s.reading }()
	if err := s.read(ctx); err != nil {
		return fmt.Errorf("load the credentials: %w", err)
	}
	s.change(func(*memory) {}) // a database without credentials has changed nothing
	return nil
}

// Run follows the database and the files, ends what expires, and writes the last uses
// of keys, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if s.isShared {
		group.Go(func() error {
			return every(ctx, pollInterval, func() { s.refresh(ctx, false) }) //nolint:errcheck // it is reported
		})
	}
	group.Go(func() error { return every(ctx, pollInterval, s.checkExpired) })
	group.Go(func() error {
		return every(ctx, filePollInterval, func() {
			for _, f := range s.files {
				s.follow(f)
			}
		})
	})
	group.Go(func() error {
		return every(ctx, useInterval, func() { s.writeUses(ctx) })
	})
	group.Go(func() error {
		s.prune(ctx) // a server that is restarted often prunes too
		return every(ctx, pruneInterval, func() { s.prune(ctx) })
	})
	err := group.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWriteTimeout)
	defer cancel()
	s.writeUses(last)
	return err
}

// every calls f after each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f()
		}
	}
}

// writeUses writes when keys of the database were last used.
func (s *Service) writeUses(ctx context.Context) {
	var used []*entry
	s.mu.RLock()
	for _, e := range s.memory.stored {
		if e.usedAt.Load() > e.writtenAt.Load() {
			used = append(used, e)
		}
	}
	s.mu.RUnlock()
	for batch := range slices.Chunk(used, useBatch) {
		uses := map[string]time.Time{}
		for _, e := range batch {
			uses[e.Name] = *e.lastUse()
		}
		if err := s.o.Store.RecordKeyUses(ctx, uses); err != nil {
			s.log.Warn("last uses of keys not written; retrying", "error", err)
			return
		}
		for _, e := range batch {
			e.writtenAt.Store(uses[e.Name].Unix() / 60)
		}
	}
}

// prune removes the keys that ended long ago.
func (s *Service) prune(ctx context.Context) {
	before := time.Now().Add(-KeyRetention)
	s.mu.RLock()
	isDue := false
	for _, e := range s.memory.stored {
		isDue = isDue || e.endedBefore(before)
	}
	s.mu.RUnlock()
	if !isDue { // all keys of the database are in memory
		return
	}
	if err := s.o.Store.PruneKeys(ctx, before); err != nil {
		s.log.Warn("old keys not removed; retrying", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.memory.stored {
		if e.endedBefore(before) {
			s.memory.remove(e)
		}
	}
}

// report keeps what is wrong with a source of credentials. It logs that once per
// change, but once per outage of the database, whose errors differ each time.
func (s *Service) report(source string, err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("credentials of the %s: %v", source, err)
	}
	s.problemsMu.Lock()
	before := s.problems[source]
	changed := before != text && (source != databaseSource || before == "" || text == "")
	s.problems[source] = text
	s.problemsMu.Unlock()
	switch {
	case changed && err != nil:
		s.log.Error("credentials cannot be read; those that were read last stay in use", "source", source, "error", err)
	case changed:
		s.log.Info("credentials are read again", "source", source)
	}
}

// Problems returns what is wrong with the credentials: files and a database that
// cannot be read, and names that two keys have. Each is a sentence for operators.
func (s *Service) Problems() []string {
	s.problemsMu.Lock()
	all := slices.Collect(maps.Values(s.problems))
	s.problemsMu.Unlock()
	s.mu.RLock()
	for name := range s.memory.fileNames {
		if s.memory.stored[name] != nil {
			all = append(all, "key "+name+" is in the key file and in the database: rename it in the file")
		}
	}
	s.mu.RUnlock()
	all = slices.DeleteFunc(all, func(text string) bool { return text == "" })
	slices.Sort(all)
	return all
}

// event returns an event of a change that the context's actor makes.
func (s *Service) event(ctx context.Context, typ activity.Type, message string, data any) activity.Event {
	actor := activity.ActorOf(ctx)
	return activity.Event{
		Type: typ, Message: message, Data: activity.Data(data),
		Actor: actor.Name, Address: actor.Address, Request: actor.Request,
	}
}
