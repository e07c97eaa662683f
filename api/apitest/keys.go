package apitest

import (
	"context"
	"slices"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// keyring keeps keys and bindings. The key of NAME is "hostler_NAME".
type keyring struct{ *Backend }

func (b keyring) CreateKey(_ context.Context, n credential.NewKey) (credential.Key, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Errors["create-key"]; err != nil {
		return credential.Key{}, "", err
	}
	if slices.ContainsFunc(b.Backend.Keys, func(k credential.Key) bool { return k.Name == n.Name }) {
		return credential.Key{}, "", credential.ErrExists
	}
	k := credential.Key{
		Name: n.Name, Grants: n.Grants, Prefix: "hostler_", Source: credential.Database, CreatedAt: &Time, CreatedBy: "local",
	}
	if n.ExpiresIn > 0 {
		at := Time.Add(n.ExpiresIn)
		k.ExpiresAt = &at
	}
	b.Backend.Keys = append(b.Backend.Keys, k)
	return k, "hostler_" + n.Name, nil
}

func (b keyring) Keys(context.Context) ([]credential.Key, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.Backend.Keys), b.Errors["keys"]
}

func (b keyring) Key(_ context.Context, name string) (credential.Key, error) {
	return b.changeKey(name, func(*credential.Key) {})
}

func (b keyring) RevokeKey(_ context.Context, name string) (credential.Key, error) {
	return b.changeKey(name, func(k *credential.Key) { k.RevokedAt = &Time })
}

func (b keyring) changeKey(name string, change func(*credential.Key)) (credential.Key, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, k := range b.Backend.Keys {
		if k.Name == name && b.Errors["key"] == nil {
			change(&b.Backend.Keys[i])
			return b.Backend.Keys[i], nil
		}
	}
	if err := b.Errors["key"]; err != nil {
		return credential.Key{}, err
	}
	return credential.Key{}, credential.ErrNotFound
}

func (b keyring) CreateToken(_ context.Context, maker *auth.Principal, n credential.NewToken) (credential.Token, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Requests = append(b.Requests, n)
	return credential.Token{
		Token: "token-of-" + maker.Name, Tenant: n.Tenant, Claim: n.Claim, ExpiresAt: Time.Add(n.ExpiresIn),
	}, b.Errors["create-token"]
}

type bindings struct{ *Backend }

func (b bindings) PutBinding(_ context.Context, put credential.Binding) (credential.Binding, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Errors["put-binding"]; err != nil {
		return credential.Binding{}, false, err
	}
	if i := b.indexOf(put.Name); i >= 0 {
		b.Backend.Bindings[i] = put
		return put, false, nil
	}
	b.Backend.Bindings = append(b.Backend.Bindings, put)
	return put, true, nil
}

func (b bindings) Bindings(context.Context) ([]credential.Binding, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.Backend.Bindings), b.Errors["bindings"]
}

func (b bindings) Binding(_ context.Context, name string) (credential.Binding, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.indexOf(name); i >= 0 {
		return b.Backend.Bindings[i], nil
	}
	return credential.Binding{}, credential.ErrNotFound
}

func (b bindings) DeleteBinding(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.indexOf(name)
	if i < 0 {
		return credential.ErrNotFound
	}
	b.Backend.Bindings = slices.Delete(b.Backend.Bindings, i, i+1)
	return b.Errors["delete-binding"]
}

// indexOf returns the index of a binding, or -1.
func (b bindings) indexOf(name string) int {
	return slices.IndexFunc(b.Backend.Bindings, func(k credential.Binding) bool { return k.Name == name })
}
