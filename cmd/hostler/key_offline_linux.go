package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/store"
)

// offlineStore is the database of a server that is stopped.
type offlineStore struct{ c serveConfig }

func (o *offlineStore) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.c.data, "data", "", "the data directory of a stopped server")
	f.StringVar(&o.c.store, "store", sqlite, "with --data, where records are stored: sqlite, a file in the data directory, or postgres://USER@HOST/DATABASE")
	f.StringVar(&o.c.storeFile, "store-file", "", "with --data, file with the store's URL, for a URL with a password")
	must(cmd.MarkFlagDirname("data"))
}

func (*offlineStore) isGiven(cmd *cobra.Command) bool { return cmd.Flags().Changed("data") }

// check returns a usage error of the flags.
func (o *offlineStore) check(cmd *cobra.Command) error {
	if err := o.c.checkArguments(); err != nil {
		return usagef(cmd, "%v", err)
	}
	return nil
}

// bootstrap makes the first key. The database is created if it does not exist.
func (o *offlineStore) bootstrap(ctx context.Context, name string) (made client.CreatedKey, err error) {
	if err := os.MkdirAll(o.c.data, 0o700); err != nil {
		return made, fmt.Errorf("create the data directory: %w", err)
	}
	dsn, err := o.c.database()
	if err != nil {
		return made, err
	}
	db, err := store.Open(ctx, dsn)
	if errors.Is(err, store.ErrInUse) {
		return made, fmt.Errorf("%w: leave out --data, and name the server with --server", err)
	}
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := checkUnused(ctx, db); err != nil {
		return made, err
	}
	id, err := loadIdentity(ctx, db)
	if err != nil {
		return made, err
	}
	credentials, err := credential.New(credential.Options{Store: db, Secret: id.secret})
	if err != nil {
		return made, err
	}
	if err := credentials.Load(ctx); err != nil {
		return made, err
	}
	k, secret, err := credentials.Bootstrap(ctx, name)
	if errors.Is(err, credential.ErrExists) {
		return made, fmt.Errorf("%w, also if it is revoked: give another NAME", err)
	}
	if err != nil {
		return made, err
	}
	text, err := json.Marshal(api.CreatedKey{KeyRecord: k, Key: secret})
	if err != nil {
		return made, fmt.Errorf("encode the key: %w", err)
	}
	return made, json.Unmarshal(text, &made)
}
