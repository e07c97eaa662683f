package main

import (
	"fmt"
	"log/slog"

	"github.com/hostler/hostler/snapshot/statekey"
)

// stateKeys returns the keys that tenants' state is encrypted with; nil for
// none. A server without the keys that it is configured with does not start: it
// would store tenants' state in the clear.
func (c serveConfig) stateKeys(log *slog.Logger) (*statekey.Keys, error) {
	if c.stateKeyFile == "" {
		return nil, nil
	}
	keys, err := statekey.Load(c.stateKeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statekey.Option, err)
	}
	log.Info("new state of tenants is encrypted", "key", keys.Current().String())
	return keys, nil
}
