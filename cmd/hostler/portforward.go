package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
)

// claimCheckInterval is how often port-forward looks whether its claim has ended.
const claimCheckInterval = 5 * time.Second

// maxForwarded bounds the connections of one forwarded port that are open at once:
// the server permits no more of a claim.
const maxForwarded = 256

func newPortForwardCmd() *cobra.Command {
	var r remote
	var address string
	cmd := &cobra.Command{
		Use:   "port-forward CLAIM [LOCAL:]PORT...",
		Short: "Forward local ports to ports of a claim's container",
		Long: `Forward ports of this machine to ports of a claim's container, through the server.
The program in the container may listen on its loopback interface only. LOCAL is the
port here: the same one by default, any free one for 0. It runs until it is
interrupted or the claim ends. A connection that is lost does not end it.`,
		Example: "  hostler port-forward CLAIM 8080\n  hostler port-forward CLAIM 0:8080 5433:5432",
		Args:    cobra.MinimumNArgs(2),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			f := forwarder{c: c, claim: args[0], out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr()}
			defer f.close()
			for _, text := range args[1:] {
				if err := f.listen(ctx, cmd, address, text); err != nil {
					return err
				}
			}
			return f.run(ctx)
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "address to listen on; other machines can use the ports of one that is not loopback")
	r.flags(cmd)
	return cmd
}

// forwarder forwards ports of this machine.
type forwarder struct {
	c           *client.Client
	claim       string
	out, errOut io.Writer
	ports       []forwardedPort
}

// forwardedPort is one of them.
type forwardedPort struct {
	number   int
	listener net.Listener
}

// listen opens a port of this machine.
func (f *forwarder) listen(ctx context.Context, cmd *cobra.Command, address, text string) error {
	local, port, ok := strings.Cut(text, ":")
	if !ok {
		port = local
	}
	number, err := strconv.ParseUint(port, 10, 16)
	localNumber, localErr := strconv.ParseUint(local, 10, 16)
	if err != nil || localErr != nil || number == 0 || !ok && localNumber == 0 {
		return usagef(cmd, "%q is not a port, and not two of them as in 8080:80", text)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(address, local))
	if err != nil {
		return fmt.Errorf("listen: %w; name another local port, as in 0:%d", err, number)
	}
	f.ports = append(f.ports, forwardedPort{int(number), l})
	return nil
}

func (f *forwarder) close() {
	for _, p := range f.ports {
		p.listener.Close() //nolint:errcheck // it ends with the command
	}
}

// run forwards connections until ctx ends or the claim has ended.
func (f *forwarder) run(ctx context.Context) error {
	if err := f.check(ctx); err != nil {
		return err
	}
	for _, p := range f.ports {
		fmt.Fprintf(f.out, "Forwarding from %s to port %d\n", p.listener.Addr(), p.number)
	}
	// What ends one part ends all, with its error as the cause.
	ctx, end := context.WithCancelCause(ctx)
	defer context.AfterFunc(ctx, f.close)()
	var g errgroup.Group
	for _, p := range f.ports {
		g.Go(func() error { end(f.accept(ctx, end, p)); return nil })
	}
	g.Go(func() error { end(f.watch(ctx)); return nil })
	_ = g.Wait() // they return none
	return context.Cause(ctx)
}

// watch returns when the claim has ended.
func (f *forwarder) watch(ctx context.Context) error {
	ticker := time.NewTicker(claimCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		if err := f.check(ctx); err != nil && isClaimOver(err) {
			return err
		}
	}
}

// check returns an error unless the claim is active.
func (f *forwarder) check(ctx context.Context) error {
	claim, err := f.c.GetClaim(ctx, f.claim)
	if err == nil && claim.State != client.ClaimActive {
		err = &client.Error{Code: client.CodeClaimNotActive, Detail: fmt.Sprintf("claim %s is %s", claim.ID, claim.State)}
	}
	return err
}

// isClaimOver reports whether no connection can be opened any more.
func isClaimOver(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Code == client.CodeClaimNotActive || e.Code == client.CodeClaimNotFound)
}

// accept forwards the connections to one port until ctx ends. A connection that
// cannot be opened because the claim has ended ends everything.
func (f *forwarder) accept(ctx context.Context, end context.CancelCauseFunc, p forwardedPort) error {
	var open errgroup.Group
	open.SetLimit(maxForwarded)
	defer open.Wait() //nolint:errcheck // they return none
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			err = fmt.Errorf("accept a connection: %w", err)
			end(err) // unless it is closed because of another cause
			return err
		}
		open.Go(func() error {
			err := f.forward(ctx, p.number, conn)
			switch {
			case err == nil || ctx.Err() != nil:
			case isClaimOver(err):
				end(err)
			default:
				fmt.Fprintf(f.errOut, "a connection to port %d failed: %s\n", p.number, sanitize(err.Error()))
			}
			return nil
		})
	}
}

// forward forwards one connection until both directions have ended, or one has
// failed.
func (f *forwarder) forward(ctx context.Context, port int, local net.Conn) error {
	defer local.Close() //nolint:errcheck // it is over
	remote, err := f.c.Port(f.claim, port).DialContext(ctx, "", "")
	if err != nil {
		abandon(local)
		return err
	}
	defer remote.Close() //nolint:errcheck // it is over
	end := func() { abandon(local); remote.Close() }
	defer context.AfterFunc(ctx, end)()
	var both errgroup.Group
	for _, way := range [][2]net.Conn{{local, remote}, {remote, local}} {
		both.Go(func() error {
			_, err := io.Copy(struct{ io.Writer }{way[1]}, struct{ io.Reader }{way[0]})
			if err == nil {
				err = way[1].(interface{ CloseWrite() error }).CloseWrite()
			}
			if err != nil {
				end()
			}
			return err
		})
	}
	return both.Wait()
}

// abandon closes a connection so that its program gets an error and no end.
func abandon(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0) //nolint:errcheck // it is closed already
	}
	c.Close() //nolint:errcheck // it is over
}

func newLinkCmd() *cobra.Command {
	var r remote
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "link CLAIM PORT",
		Short: "Make a link to a port of a claim's container, for a browser",
		Long: `Make a link to a port of a claim's container. Who has the link can use the port
until the link expires, at most for 24 h, or until the claim ends. The server needs
a domain for ports (serve --port-domain).`,
		Example: "  hostler link CLAIM 8080 --expires 8h",
		Args:    cobra.ExactArgs(2),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			port, err := strconv.ParseUint(args[1], 10, 16)
			if err != nil || port == 0 {
				return usagef(cmd, "%q is not a port", args[1])
			}
			link, err := c.CreateLink(ctx, args[0], int(port), expires)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), link, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, link.URL)
				return err
			})
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	cmd.Flags().DurationVar(&expires, "expires", time.Hour, "for how long the link can be used")
	r.flags(cmd)
	return cmd
}
