package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// place is one side of a copy: a file of a claim's container, a file of this machine,
// or a stream.
type place struct {
	claim string // empty for this machine
	path  string
	// inside reports that the content of the directory is meant, not the directory:
	// it was written with "/." at its end.
	inside bool
	// isDir reports that it must be a directory: it was written with a slash.
	isDir    bool
	isStream bool
}

// parsePlace parses an argument. A single letter before a colon is a drive of Windows.
func parsePlace(arg string) (place, error) {
	if arg == "-" {
		return place{isStream: true}, nil
	}
	p := place{path: arg}
	separators := "/" + string(filepath.Separator)
	if before, after, ok := strings.Cut(arg, ":"); ok && len(before) > 1 && !strings.ContainsAny(before, separators) {
		if !strings.HasPrefix(after, "/") {
			return place{}, fmt.Errorf("%q: a path in a container is absolute, such as %s:/tmp; a file of this machine with a colon is written as ./NAME", arg, before)
		}
		p.claim, p.path, separators = before, after, "/"
	}
	if rest, ok := strings.CutSuffix(p.path, "."); ok && rest != "" && strings.ContainsAny(rest[len(rest)-1:], separators) {
		p.path, p.inside = rest, true
	}
	trimmed := strings.TrimRight(p.path, separators)
	p.isDir = trimmed != p.path
	if p.claim == "" {
		return p, nil // a root of Windows needs its separator
	}
	p.path = trimmed
	if trimmed == "" {
		p.path = "/"
	}
	return p, nil
}

// copier copies files between a claim's container and this machine.
type copier struct {
	*client.Client
	remote, local place
	isGet         bool // out of the container
	asTar         bool
	in            io.Reader
	out, errOut   io.Writer

	bytes   atomic.Int64
	files   int
	skipped int // that are no files, directories or links
}

// copied is the result of a copy.
type copied struct {
	Files int   `json:"files"` // and directories and links
	Bytes int64 `json:"bytes"`
}

func newCpCmd() *cobra.Command {
	var r remote
	c := &copier{}
	cmd := &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy files into or out of a claim's container",
		Long: `Copy a file or a directory into or out of the container of an active claim. One
side is CLAIM:PATH, with an absolute path in the container; the other one is a
path of this machine, or - for a stream. A path of this machine that has a colon
is written as ./NAME.

A file or directory is copied into the destination if that is a directory, and
as the destination otherwise. A source that ends in /. is the content of the
directory. Directories are merged, and files and links replace those of their
name. A file appears as a whole or not at all.

Links are copied as links, and modes and times are kept, except the time of a
single file that is copied into a container. Devices, pipes and sockets are
skipped. Files belong to the container's user, or to the user of this command;
what that user may not read or write is an error. No file of an archive from a
container is written outside of the destination, whatever its links are.

With -, a file is copied as it is, and a directory out of a container as a tar.
With --tar a file is a tar too, and the stream into a container is unpacked into
the directory.`,
		Example: "  hostler cp ./src 0199c2a4-7d1e-7c5e-9f3a-2b1c4d5e6f70:/work",
		Args:    cobra.ExactArgs(2),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, api *client.Client, args []string) error {
			source, err := parsePlace(args[0])
			destination, err2 := parsePlace(args[1])
			if err := errors.Join(err, err2); err != nil {
				return usagef(cmd, "%v", err)
			}
			if (source.claim == "") == (destination.claim == "") {
				return usagef(cmd, "either the source or the destination is CLAIM:PATH")
			}
			c.Client, c.in, c.out, c.errOut = api, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			c.remote, c.local = destination, source
			do := c.put
			if c.isGet = source.claim != ""; c.isGet {
				c.remote, c.local, do = source, destination, c.get
			}
			if c.asTar && !c.local.isStream {
				return usagef(cmd, "--tar is for a stream only: the other side must be -")
			}
			return c.run(ctx, &r, do)
		}),
		ValidArgsFunction: r.completePlaces(2),
	}
	cmd.Flags().BoolVar(&c.asTar, "tar", false, "the stream is a tar")
	r.flags(cmd)
	return cmd
}

// run performs a copy and prints what it did.
func (c *copier) run(ctx context.Context, r *remote, do func(context.Context) error) error {
	isOutput, stop := c.isGet && c.local.isStream, func() {}
	if !isOutput || !isTerminal(c.out) {
		stop = startProgress(c.errOut, func() string { return "copying: " + binarySize(c.bytes.Load()) })
	}
	err := do(ctx)
	stop()
	if err != nil {
		return err
	}
	if c.skipped > 0 {
		fmt.Fprintf(c.errOut, "%d devices, pipes or sockets were skipped\n", c.skipped)
	}
	if isOutput {
		return nil
	}
	result := copied{Files: c.files, Bytes: c.bytes.Load()}
	return r.printResult(c.out, result, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "copied %d files, %s\n", result.Files, binarySize(result.Bytes))
		return err
	})
}

// binarySize returns a number of bytes for people.
func binarySize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/(1<<10), 0
	for ; size >= 1<<10 && unit < 3; unit++ {
		size /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", size, "KMGT"[unit])
}

// isRemoteDir reports whether a path of the container is a directory, or a link to
// one. A path that does not exist is none.
func (c *copier) isRemoteDir(ctx context.Context, name string) (isDir, exists bool, err error) {
	info, err := c.StatFile(ctx, c.remote.claim, name)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code == client.CodeFileNotFound {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if info.Type != client.TypeLink {
		return info.Type == client.TypeDirectory, true, nil
	}
	for _, err := range c.ListFiles(ctx, c.remote.claim, name) {
		if e, ok := errors.AsType[*client.Error](err); ok && (e.Code == client.CodeNotDirectory || e.Code == client.CodeFileNotFound) {
			return false, true, nil
		}
		return err == nil, true, err
	}
	return true, true, nil
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// completePlaces completes the claims of that many arguments, and files.
func (r *remote) completePlaces(count int) cobra.CompletionFunc {
	ids := r.complete(claimIDs)
	return func(cmd *cobra.Command, args []string, given string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= count {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, _ := ids(cmd, nil, given)
		for i := range found {
			found[i] += ":/"
		}
		return found, cobra.ShellCompDirectiveNoSpace
	}
}
