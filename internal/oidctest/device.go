package oidctest

import (
	"fmt"
	"net/http"
)

// UserCode is what a user enters to approve a device.
const UserCode = "ABCD-EFGH"

// deviceFlow is the state of the device authorization flow: one device at a time.
type deviceFlow struct {
	approved  func() Claims
	polls     int
	refresh   int // the number of the refresh token that is valid
	forms     []map[string][]string
	expiresIn int
}

// Approve approves the device: its tokens have the claims.
func (i *Issuer) Approve(claims func() Claims) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.device.approved = claims
}

// TokenLifetime sets expires_in of the tokens, in seconds.
func (i *Issuer) TokenLifetime(seconds int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.device.expiresIn = seconds
}

// Forms returns the forms of the requests of the flow.
func (i *Issuer) Forms() []map[string][]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]map[string][]string(nil), i.device.forms...)
}

func (i *Issuer) authorizeDevice(w http.ResponseWriter, r *http.Request) {
	i.readForm(r)
	i.answer(w, map[string]any{
		"device_code": "device-secret", "user_code": UserCode, "verification_uri": i.Server.URL + "/activate\x1b[2J",
		"interval": 1, "expires_in": 60,
	})
}

// giveToken answers the first request with pending, and others once the device is
// approved. Each refresh token is accepted once.
func (i *Issuer) giveToken(w http.ResponseWriter, r *http.Request) {
	i.readForm(r)
	i.mu.Lock()
	d := &i.device
	d.polls++
	problem := ""
	switch r.PostFormValue("grant_type") {
	case "urn:ietf:params:oauth:grant-type:device_code":
		if d.approved == nil || d.polls == 1 {
			problem = "authorization_pending"
		}
	case "refresh_token":
		if r.PostFormValue("refresh_token") != fmt.Sprint("refresh-", d.refresh) {
			problem = "invalid_grant"
		}
	default:
		problem = "unsupported_grant_type"
	}
	if problem == "" {
		d.refresh++
	}
	refresh, claims, expiresIn := fmt.Sprint("refresh-", d.refresh), d.approved, d.expiresIn
	i.mu.Unlock()
	if problem != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		i.answer(w, map[string]any{"error": problem})
		return
	}
	if expiresIn == 0 {
		expiresIn = 3600
	}
	i.answer(w, map[string]any{
		"access_token": "opaque", "token_type": "Bearer", "id_token": i.Sign(claims()),
		"refresh_token": refresh, "expires_in": expiresIn,
	})
}

func (i *Issuer) readForm(r *http.Request) {
	if err := r.ParseForm(); err != nil {
		i.t.Errorf("request of the device flow: %v", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.device.forms = append(i.device.forms, r.PostForm)
}
