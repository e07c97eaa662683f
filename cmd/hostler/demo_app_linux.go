package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// newDemoAppCmd returns the program that runs inside the demo's containers: a
// small server that keeps a tenant's notes, and the commands of its hooks. It is
// part of this binary so that the demo needs no other image.
func newDemoAppCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "demo-app", Short: "The program of the demo's containers", Hidden: true}
	for _, sub := range []struct {
		use string
		run func(context.Context, io.Writer) error
	}{
		{"serve", appServe},
		{"check", appCheck},
		{"warm", appWarm},
		{"migrate", appMigrate},
		{"index", appIndex},
		{"flush", appFlush},
		{"deregister", appDeregister},
		{"runaway", appMisbehave},
		{"daemon", appDaemon},
	} {
		cmd.AddCommand(&cobra.Command{
			Use: sub.use, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return sub.run(cmd.Context(), cmd.OutOrStdout())
			},
		})
	}
	return cmd
}

// appDir returns the volume with the tenant's files. On the process backend the
// container's root is a directory of this machine.
func appDir() string { return filepath.Join(os.Getenv("HOSTLER_ROOT"), "/state") }

func appSocket() string { return filepath.Join(appDir(), "app.sock") }

// appServe serves HTTP on a socket in its volume until it gets SIGTERM.
func appServe(ctx context.Context, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := os.Remove(appSocket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// The absolute path may exceed the maximum length of a socket address.
	if err := os.Chdir(appDir()); err != nil {
		return err
	}
	listener, err := net.Listen("unix", "app.sock")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		owner, _ := os.ReadFile("owner") //nolint:errcheck // there is no owner yet
		fmt.Fprintf(w, "notes of %q\n", owner)
	})}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Fprintln(out, "demo-app: serving")
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// appCheck is the health check. It fails if the server does not answer.
func appCheck(ctx context.Context, out io.Writer) error {
	logged, err := askApp(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(out, logged)
	return nil
}

// askApp sends a request to the server in this container.
func askApp(ctx context.Context) (string, error) {
	if err := os.Chdir(appDir()); err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", "app.sock")
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://app/", http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	return string(body), err
}

// appWarm is a post_create hook. It runs once for each container, before the
// container has a tenant.
func appWarm(_ context.Context, out io.Writer) error {
	fmt.Fprintf(out, "warmed the caches of container %s\n", shortID(os.Getenv("HOSTLER_CONTAINER")))
	return nil
}

// appMigrate is a post_claim hook. It prepares the container for the tenant.
func appMigrate(ctx context.Context, out io.Writer) error {
	tenant := os.Getenv("HOSTLER_TENANT")
	if err := os.WriteFile(filepath.Join(appDir(), "owner"), []byte(tenant), 0o600); err != nil {
		return err
	}
	logged, err := askApp(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s container assigned to %s; the app answered: %s\n", os.Getenv("HOSTLER_CLAIM_SOURCE"), tenant, strings.TrimSpace(logged))
	return nil
}

// appIndex is a post_claim hook. Its first attempt fails, the retry succeeds.
func appIndex(_ context.Context, out io.Writer) error {
	if os.Getenv("HOSTLER_ATTEMPT") == "1" {
		return errors.New("the index is locked, try again")
	}
	fmt.Fprintln(out, "built the index")
	return nil
}

// appFlush is a pre_release hook.
func appFlush(_ context.Context, out io.Writer) error {
	owner, err := os.ReadFile(filepath.Join(appDir(), "owner"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "flushed the notes of %s\n", owner)
	return nil
}

// appDeregister is a pre_destroy hook.
func appDeregister(_ context.Context, out io.Writer) error {
	fmt.Fprintf(out, "deregistered container %s\n", shortID(os.Getenv("HOSTLER_CONTAINER")))
	return nil
}

// appMisbehave is a hook that ignores SIGTERM, leaves a daemon running and
// writes endlessly.
func appMisbehave(ctx context.Context, out io.Writer) error {
	signal.Ignore(syscall.SIGTERM)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	daemon := exec.Command(self, "demo-app", "daemon") //nolint:noctx // the daemon outlives the hook
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := daemon.Start(); err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for ctx.Err() == nil {
		if _, err := out.Write(block); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// appDaemon is the daemon that appMisbehave leaves running.
func appDaemon(ctx context.Context, _ io.Writer) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	<-ctx.Done()
	return ctx.Err()
}

// shortID returns the last 8 characters of an id, which distinguish it.
func shortID(id string) string {
	if len(id) <= 8 {
		return id
	}
	return id[len(id)-8:]
}
