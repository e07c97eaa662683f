package api_test

import (
	"context"
	"sync"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// testAuth is an Authenticator of principals by their keys.
type testAuth struct {
	principals map[string]*auth.Principal

	mu        sync.Mutex // guards followers
	followers map[*auth.Principal]map[int]func(error)
	last      int
}

// newTestAuth returns an Authenticator with a key for each column of the table of
// access: tenant is of alice, author of the workload web.
func newTestAuth() *testAuth {
	of := func(g auth.Grant) *auth.Principal {
		name := string(g.Role)
		return &auth.Principal{Actor: "key:" + name, Name: name, Grants: []auth.Grant{g}}
	}
	exactly := func(name string) []activity.Pattern { return []activity.Pattern{activity.Exactly(name)} }
	return &testAuth{followers: map[*auth.Principal]map[int]func(error){}, principals: map[string]*auth.Principal{
		"tenant":   of(auth.Grant{Role: auth.Tenant, Tenants: exactly("alice")}),
		"author":   of(auth.Grant{Role: auth.Author, Workloads: exactly("web")}),
		"viewer":   of(auth.Grant{Role: auth.Viewer}),
		"operator": of(auth.Grant{Role: auth.Operator}),
		"metrics":  of(auth.Grant{Role: auth.Metrics}),
	}}
}

func (*testAuth) IsOpen() bool { return false }

func (a *testAuth) Authenticate(_ context.Context, r auth.Request) (*auth.Principal, error) {
	if r.Bearer == "" {
		return nil, auth.ErrNoCredential
	}
	if p, ok := a.principals[r.Bearer]; ok {
		return p, nil
	}
	return nil, auth.ErrInvalidCredential
}

func (a *testAuth) IsCredential(_ context.Context, text string) bool {
	return a.principals[text] != nil
}

func (a *testAuth) Follow(p *auth.Principal, end func(error)) (stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.followers[p] == nil {
		a.followers[p] = map[int]func(error){}
	}
	a.last++
	n := a.last
	a.followers[p][n] = end
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.followers[p], n)
	}
}

// revoke ends the requests with a key.
func (a *testAuth) revoke(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, end := range a.followers[a.principals[key]] {
		end(auth.ErrRevoked)
	}
}

// followed returns how many requests with a key have not ended.
func (a *testAuth) followed(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.followers[a.principals[key]])
}
