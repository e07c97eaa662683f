package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newFilesCmd() *cobra.Command {
	cmd := newGroupCmd("files", "Show and delete files of a claim's container", newFilesListCmd(), newFilesStatCmd(), newFilesDeleteCmd())
	cmd.Long = `Show and delete files in the container of an active claim, with the rights of the
container's user. Copy files with hostler cp.`
	return cmd
}

// remoteFile returns the file of a claim that an argument names.
func remoteFile(cmd *cobra.Command, arg string) (claim, name string, err error) {
	p, err := parsePlace(arg)
	if err != nil {
		return "", "", usagef(cmd, "%v", err)
	}
	if p.claim == "" {
		return "", "", usagef(cmd, "name the file as CLAIM:PATH")
	}
	return p.claim, p.path, nil
}

const fileColumns = "NAME TYPE MODE SIZE UID GID MODIFIED TARGET"

func fileRow(f client.FileInfo) []string {
	return []string{
		f.Name, string(f.Type), fmt.Sprintf("%04o", f.Mode.Perm()), strconv.FormatInt(f.Size, 10),
		strconv.Itoa(f.UID), strconv.Itoa(f.GID), timestamp(f.Modified), f.Target,
	}
}

func newFilesListCmd() *cobra.Command {
	var r remote
	var limit int
	cmd := &cobra.Command{
		Use:     "list CLAIM:PATH",
		Short:   "Show what is in a directory",
		Example: "  hostler files list 0199c2a4-7d1e-7c5e-9f3a-2b1c4d5e6f70:/work",
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			claim, name, err := remoteFile(cmd, args[0])
			if err != nil {
				return err
			}
			items := []client.FileInfo{}
			for info, err := range c.ListFiles(ctx, claim, name) {
				if err != nil {
					return err
				}
				if items = append(items, info); len(items) == limit {
					break
				}
			}
			return r.printFiles(cmd.OutOrStdout(), items, items...)
		}),
		ValidArgsFunction: r.completePlaces(1),
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "at most this many (default all)")
	r.flags(cmd)
	return cmd
}

// printFiles prints v, or a table of the files.
func (r *remote) printFiles(w io.Writer, v any, files ...client.FileInfo) error {
	return r.printResult(w, v, func(w io.Writer) error {
		rows := make([][]string, len(files))
		for i, f := range files {
			rows[i] = fileRow(f)
			rows[i][0], rows[i][7] = oneLine(f.Name), oneLine(f.Target)
		}
		return writeTable(w, fileColumns, rows)
	})
}

func newFilesStatCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "stat CLAIM:PATH",
		Short: "Describe a file",
		Long:  "Describe a file, directory or link. A link is not followed.",
		Args:  cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			claim, name, err := remoteFile(cmd, args[0])
			if err != nil {
				return err
			}
			info, err := c.StatFile(ctx, claim, name)
			if err != nil {
				return err
			}
			return r.printFiles(cmd.OutOrStdout(), info, info)
		}),
		ValidArgsFunction: r.completePlaces(1),
	}
	r.flags(cmd)
	return cmd
}

func newFilesDeleteCmd() *cobra.Command {
	var r remote
	var recursive bool
	cmd := &cobra.Command{
		Use:   "delete CLAIM:PATH",
		Short: "Delete a file",
		Long:  "Delete a file, a link or an empty directory; with --recursive also a directory\nwith all that is in it.",
		Args:  cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			claim, name, err := remoteFile(cmd, args[0])
			if err != nil {
				return err
			}
			if err := c.RemoveFile(ctx, claim, name, recursive); err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), map[string]bool{"deleted": true}, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "deleted")
				return err
			})
		}),
		ValidArgsFunction: r.completePlaces(1),
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "also a directory with all that is in it")
	r.flags(cmd)
	return cmd
}
