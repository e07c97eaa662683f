package kubernetes

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/store/postgrestest"
)

// Several servers on one PostgreSQL database return the same claim.
func TestInstallPostgres(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	requireHelm(t)
	containerNamespace, namespace := c.namespace(t, "baseline"), c.namespace(t, "restricted")
	database := c.reachable(t, postgrestest.Schema(t))
	c.mustDo(t, "POST", "/api/v1/namespaces/"+namespace+"/secrets", object{
		"metadata": object{"name": "database"}, "stringData": object{"url": database}}, nil)
	i := install(t, c, namespace, containerNamespace, fmt.Sprintf(
		"store: { type: postgres, postgres: { existingSecret: database } }\nreplicas: 2\nworkloads: { namespace: %s }\n", containerNamespace))
	i.apply("notes", workload(t, "notes", notes))
	held := i.checkLifecycle("notes")

	var pods []pod
	eventually(t, "one server is not ready", func() (err error) {
		pods, err = c.pods(t.Context(), namespace, "app.kubernetes.io/name=hostler")
		if err == nil && (len(pods) != 2 || !pods[0].isReady() || !pods[1].isReady()) {
			err = fmt.Errorf("%+v", pods)
		}
		return err
	})
	for _, p := range pods {
		one, err := client.New("http://"+p.Status.PodIP+":8700", i.key)
		require.NoError(t, err)
		again, created, err := one.Claim(t.Context(), "notes", held.Tenant, 0)
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, held.ID, again.ID)
	}
	i.release(held)
	i.remove("notes")
}

// reachable returns a URL with which pods reach a database of this machine,
// through a relay: the database listens on a loopback address only.
func (c *cluster) reachable(t testing.TB, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", net.JoinHostPort(c.nodeAddress(t), "0"))
	require.NoError(t, err)
	target := u.Host
	u.Host = listener.Addr().String()
	var relays errgroup.Group
	relays.Go(func() error { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return nil
			}
			relays.Go(func() error { return relay(conn, target) })
		}
	})
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	return u.String()
}

// nodeAddress returns an address of this machine that pods reach.
func (c *cluster) nodeAddress(t testing.TB) string {
	t.Helper()
	var nodes struct {
		Items []struct {
			Status struct {
				Addresses []struct{ Type, Address string }
			}
		}
	}
	c.mustDo(t, "GET", "/api/v1/nodes", nil, &nodes)
	return nodes.Items[0].Status.Addresses[0].Address
}

// relay forwards a connection until either side closes it.
func relay(conn net.Conn, target string) error {
	defer conn.Close()
	other, err := net.Dial("tcp", target)
	if err != nil {
		return err
	}
	defer other.Close()
	var both errgroup.Group
	both.Go(func() error {
		defer other.Close()
		_, err := io.Copy(other, conn)
		return err
	})
	both.Go(func() error {
		defer conn.Close()
		_, err := io.Copy(conn, other)
		return err
	})
	return both.Wait()
}
