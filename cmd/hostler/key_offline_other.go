//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// offlineStore is the database of a server that is stopped, which only Linux has.
type offlineStore struct{}

func (*offlineStore) flags(*cobra.Command)        {}
func (*offlineStore) isGiven(*cobra.Command) bool { return false }
func (*offlineStore) check(*cobra.Command) error  { return nil }

func (*offlineStore) bootstrap(context.Context, string) (client.CreatedKey, error) {
	return client.CreatedKey{}, errors.ErrUnsupported
}
