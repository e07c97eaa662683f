package main

import (
	"fmt"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand returns the command of an etcd with one member. It has the flags
// of etcd that a test cluster needs.
func newEtcdCommand() *cobra.Command {
	var dir, client, peer string
	cmd := &cobra.Command{
		Use:          "etcd",
		Short:        "an etcd of one member, which does not wait for the disk",
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := etcdConfig(dir, client, peer)
			if err != nil {
				return err
			}
			return runEtcd(cmd, config)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory of the data")
	cmd.Flags().StringVar(&client, "listen-client-urls", "", "URL for clients")
	cmd.Flags().StringVar(&peer, "listen-peer-urls", "", "URL for peers, of which there are none")
	return cmd
}

func etcdConfig(dir, client, peer string) (*embed.Config, error) {
	clientURL, err := url.Parse(client)
	if err != nil {
		return nil, fmt.Errorf("read the URL for clients: %w", err)
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return nil, fmt.Errorf("read the URL for peers: %w", err)
	}
	config := embed.NewConfig()
	config.Dir = dir
	config.LogLevel = "warn"
	// A test cluster is recreated after a power failure, so it needs no fsync.
	config.UnsafeNoFsync = true
	config.ListenClientUrls = []url.URL{*clientURL}
	config.AdvertiseClientUrls = []url.URL{*clientURL}
	config.ListenPeerUrls = []url.URL{*peerURL}
	config.AdvertisePeerUrls = []url.URL{*peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config, nil
}

// runEtcd serves until SIGTERM, SIGINT or an error that etcd does not survive.
func runEtcd(cmd *cobra.Command, config *embed.Config) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-server.Server.StopNotify():
		return fmt.Errorf("etcd has stopped")
	case err := <-server.Err():
		return fmt.Errorf("serve: %w", err)
	}
}
