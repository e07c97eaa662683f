package credential

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hostler/hostler/auth"
)

var _ auth.Authenticator = (*Service)(nil)

// Options are what a Service works with.
type Options struct {
	Store        Store
	Secret       []byte             // signs tokens; without one, those of this process only are accepted
	KeyFile      string             // of API keys, followed; empty for none
	BindingsFile string             // of bindings, followed; empty for none
	Tokens       auth.TokenVerifier // of other issuers; nil for none
	OwnUID       uint32             // the server's own user, an operator over a Unix socket
	Log          *slog.Logger
}

// Service keeps the credentials of a server.
type Service struct{ o Options }

// New returns a service that knows no credential before Load.
func New(o Options) (*Service, error) { return &Service{o: o}, nil }

func (s *Service) Load(ctx context.Context) error { return errors.ErrUnsupported }
func (s *Service) Run(ctx context.Context) error  { return errors.ErrUnsupported }
func (s *Service) CreateKey(ctx context.Context, n NewKey) (Key, string, error) {
	return Key{}, "", errors.ErrUnsupported
}
func (s *Service) Keys(ctx context.Context) ([]Key, error) { return nil, errors.ErrUnsupported }
func (s *Service) Key(ctx context.Context, name string) (Key, error) {
	return Key{}, errors.ErrUnsupported
}
func (s *Service) RevokeKey(ctx context.Context, name string) (Key, error) {
	return Key{}, errors.ErrUnsupported
}
func (s *Service) CreateToken(ctx context.Context, maker *auth.Principal, n NewToken) (Token, error) {
	return Token{}, errors.ErrUnsupported
}
func (s *Service) PutBinding(ctx context.Context, b Binding) (_ Binding, created bool, err error) {
	return Binding{}, false, errors.ErrUnsupported
}
func (s *Service) Bindings(ctx context.Context) ([]Binding, error) { return nil, errors.ErrUnsupported }
func (s *Service) Binding(ctx context.Context, name string) (Binding, error) {
	return Binding{}, errors.ErrUnsupported
}
func (s *Service) DeleteBinding(ctx context.Context, name string) error {
	return errors.ErrUnsupported
}
func (s *Service) Bootstrap(ctx context.Context, name string) (Key, string, error) {
	return Key{}, "", errors.ErrUnsupported
}
func (s *Service) Problems() []string { return nil }
func (s *Service) IsOpen() bool       { return false }
func (s *Service) Authenticate(ctx context.Context, r auth.Request) (*auth.Principal, error) {
	return nil, errors.ErrUnsupported
}
func (s *Service) IsCredential(ctx context.Context, text string) bool            { return false }
func (s *Service) Follow(p *auth.Principal, end func(cause error)) (stop func()) { return func() {} }
