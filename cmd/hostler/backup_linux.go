package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/store"
)

func newBackupCmd() *cobra.Command {
	var r remote
	var data string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the SQLite database of a server, also while it runs",
		Long: `Copy the database in the data directory into a new file. The copy is consistent,
also while a server uses the database. The command needs no server, but write
access to the data directory. The copy holds the installation's secret: only its
owner can read it. "hostler restore" replaces the database with it. Use pg_dump
for a PostgreSQL database.`,
		Example: "  hostler backup /backup/hostler-$(date +%F).db",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := store.Backup(cmd.Context(), filepath.Join(data, "hostler.db"), args[0])
			if errors.Is(err, store.ErrNoDatabase) {
				return &exitError{exitFailure, fmt.Errorf("%w; name the server's data directory with --data", err)}
			}
			if errors.Is(err, os.ErrExist) {
				return fmt.Errorf("%s already exists; name another file", args[0])
			}
			if err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return fmt.Errorf("stat the copy: %w", err)
			}
			done := map[string]any{"file": args[0], "bytes": info.Size()}
			return r.printResult(cmd.OutOrStdout(), done, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %s\n", args[0], formatSize(uint64(max(0, info.Size()))))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&data, "data", firstOf(strings.TrimSpace(os.Getenv("HOSTLER_DATA")), defaultData()), "the server's data directory")
	r.outputFlag(cmd)
	return cmd
}
