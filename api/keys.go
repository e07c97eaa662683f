package api

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// Keyring creates, reads and revokes keys, and makes tokens.
type Keyring interface {
	CreateKey(ctx context.Context, k credential.NewKey) (key credential.Key, secret string, err error)
	Keys(ctx context.Context) ([]credential.Key, error)
	Key(ctx context.Context, name string) (credential.Key, error)
	RevokeKey(ctx context.Context, name string) (credential.Key, error)
	CreateToken(ctx context.Context, maker *auth.Principal, t credential.NewToken) (credential.Token, error)
}

// maxKeyLifetime bounds the lifetime that a request may ask for: a longer one is a
// mistake, and is written by leaving it out.
const maxKeyLifetime = 10 * 365 * 24 * time.Hour

// KeyRequest is the request for a key.
type KeyRequest struct {
	Name      string   `json:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"The key's name, which logs and events show." example:"ci"`
	Role      string   `json:"role" enum:"tenant,author,viewer,operator,metrics" doc:"What the holder may do."`
	Tenants   []string `json:"tenants,omitempty" maxItems:"100" doc:"Names of tenants, or a prefix and a *. The role tenant needs at least one." example:"[\"alice\"]"`
	Workloads []string `json:"workloads,omitempty" maxItems:"100" doc:"Ids of workloads, or a prefix and a *. The role author needs at least one." example:"[\"web-*\"]"`
	ExpiresIn Duration `json:"expires_in,omitempty" doc:"How long the key is accepted, at most 87600h. Default: until it is revoked."`
}

// KeyRecord is a key without its secret.
type KeyRecord = credential.Key

// CreatedKey is a new key. Key is shown only here.
type CreatedKey struct {
	KeyRecord
	Key    string `json:"key" doc:"The key itself. The server keeps only a hash of it."`
	Closed bool   `json:"closed,omitempty" doc:"Whether this is the first credential: the server accepted each client of its machine before, and requires a credential from here on."`
}

type createKeyIn struct{ Body KeyRequest }

type createKeyOut struct {
	Status int
	Body   CreatedKey
}

func (a *API) createKey(ctx context.Context, in *createKeyIn) (*createKeyOut, error) {
	grant, err := grantOf(in.Body.Role, in.Body.Tenants, in.Body.Workloads)
	if err != nil {
		return nil, err
	}
	expires := in.Body.ExpiresIn.Duration
	if expires < 0 || expires > maxKeyLifetime {
		return nil, invalidf("body.expires_in: %s is not between 0 and %s", expires, maxKeyLifetime)
	}
	wasOpen := a.isOpen()
	k, secret, err := a.o.Keys.CreateKey(ctx, credential.NewKey{Name: in.Body.Name, Grants: []auth.Grant{grant}, ExpiresIn: expires})
	if err != nil {
		return nil, err
	}
	closed := wasOpen && !a.isOpen()
	if closed {
		a.o.Log.WarnContext(ctx, "first credential created; requests without a credential are refused", "key", k.Name)
	}
	return &createKeyOut{Status: 201, Body: CreatedKey{viewKey(k), secret, closed}}, nil
}

// isOpen reports whether a client of this machine needs no credential.
func (a *API) isOpen() bool { return a.o.Auth == nil || a.o.Auth.IsOpen() }

// grantOf returns the grant that a body describes.
func grantOf(role string, tenants, workloads []string) (auth.Grant, error) {
	g := auth.Grant{Role: auth.Role(role)}
	var err error
	if g.Tenants, err = patterns("body.tenants", tenants); err != nil {
		return g, err
	}
	if g.Workloads, err = patterns("body.workloads", workloads); err != nil {
		return g, err
	}
	if err := g.Check(); err != nil {
		return g, invalidf("body: %v", err)
	}
	return g, nil
}

// patterns parses patterns of a field.
func patterns(field string, texts []string) ([]activity.Pattern, error) {
	var all []activity.Pattern
	for i, text := range texts {
		p, err := activity.ParsePattern(text)
		if err != nil {
			return nil, invalidf("%s[%d]: %v", field, i, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// viewKey returns a key with empty lists instead of nil.
func viewKey(k credential.Key) credential.Key {
	if k.Grants == nil {
		k.Grants = []auth.Grant{}
	}
	return k
}

func (a *API) listKeys(ctx context.Context, in *struct{ Paging }) (*struct{ Body *Page[credential.Key] }, error) {
	all, err := a.o.Keys.Keys(ctx)
	if err != nil {
		return nil, err
	}
	page := pageOfAll(all, in.Paging, func(k credential.Key) string { return k.Name })
	for i, k := range page.Items {
		page.Items[i] = viewKey(k)
	}
	return &struct{ Body *Page[credential.Key] }{page}, nil
}

type keyPathIn struct {
	Name string `path:"name" maxLength:"64" doc:"The key's name." example:"ci"`
}

func (a *API) getKey(ctx context.Context, in *keyPathIn) (*struct{ Body credential.Key }, error) {
	k, err := a.o.Keys.Key(ctx, in.Name)
	return answerKey(ctx, in.Name, k, err)
}

func (a *API) revokeKey(ctx context.Context, in *keyPathIn) (*struct{ Body credential.Key }, error) {
	k, err := a.o.Keys.RevokeKey(ctx, in.Name)
	return answerKey(ctx, in.Name, k, err)
}

func answerKey(ctx context.Context, name string, k credential.Key, err error) (*struct{ Body credential.Key }, error) {
	if errors.Is(err, credential.ErrNotFound) {
		return nil, newProblem(ctx, KeyNotFound, "no such key: "+quote(name))
	}
	if err != nil {
		return nil, err
	}
	return &struct{ Body credential.Key }{viewKey(k)}, nil
}
