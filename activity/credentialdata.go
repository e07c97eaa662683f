package activity

import "time"

// The data of the events about credentials. None has a part of a secret that is
// not shown otherwise.
type (
	// KeyCreatedData is the data of KeyCreated.
	KeyCreatedData struct {
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
		Key       string     `json:"key" doc:"The key's name."`
		Prefix    string     `json:"prefix" doc:"The beginning of the key."`
		Roles     []string   `json:"roles"`
	}

	// KeyRevokedData is the data of KeyRevoked.
	KeyRevokedData struct {
		Key string `json:"key" doc:"The key's name."`
	}

	// TokenCreatedData is the data of TokenCreated.
	TokenCreatedData struct {
		ExpiresAt time.Time `json:"expires_at"`
		Maker     string    `json:"maker" doc:"The name of the credential that made it."`
		Token     string    `json:"token" doc:"The token's id, which is no secret."`
	}

	// BindingAppliedData is the data of BindingApplied.
	BindingAppliedData struct {
		Binding string `json:"binding" doc:"The binding's name."`
		Kind    string `json:"kind" doc:"oidc, cert or unix."`
		Role    string `json:"role"`
	}

	// BindingDeletedData is the data of BindingDeleted.
	BindingDeletedData struct {
		Binding string `json:"binding" doc:"The binding's name."`
	}
)
