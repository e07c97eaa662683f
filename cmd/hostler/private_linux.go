package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
)

// privateKeyFile is the file of the key of a private server, in its data directory.
const privateKeyFile = "key"

// makePrivate makes the key of a server that only this command uses: other users of
// the machine reach its port, and without a key each of them could run programs on
// it.
func (c *serveConfig) makePrivate() error {
	c.apiKeyFile = filepath.Join(c.data, privateKeyFile)
	if err := os.WriteFile(c.apiKeyFile, []byte(rand.Text()+rand.Text()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the key of the private server: %w", err)
	}
	return nil
}

// usePrivately serves the API on a free port of the loopback interface while use
// runs, and then stops the server. The server outlives ctx: use cleans up.
func (s *server) usePrivately(ctx context.Context, c serveConfig, use func(base string, api *client.Client) error) error {
	key, err := os.ReadFile(c.apiKeyFile)
	if err != nil {
		return fmt.Errorf("read the key of the private server: %w", err)
	}
	connections, err := c.listeners.newConnections()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	base := "http://" + listener.Addr().String()
	api, err := client.New(base, strings.TrimSpace(string(key)))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		return s.serve(serving, c, &listeners{tcp: connections.Listen(listener), connections: connections})
	})
	err = use(base, api)
	stop()
	return errors.Join(err, g.Wait())
}
