package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/claim"
)

// A forwarded port carries connections, also after one that has failed, and ends with
// the claim.
func TestPortForward(t *testing.T) {
	b := serveTestBackend(t)
	program := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello") //nolint:errcheck // the test would fail
	}))
	port := program.Listener.Addr().(*net.TCPAddr).Port
	refused := apitest.RefusedPort(t)
	out, in := io.Pipe()
	var errOut strings.Builder
	ended := make(chan int, 1)
	go func() { // ends with the claim
		ended <- run(context.WithoutCancel(t.Context()), []string{"port-forward", "claim-alice", fmt.Sprintf("0:%d", port), fmt.Sprintf("0:%d", refused)}, nil, in, &errOut)
	}()
	lines := bufio.NewScanner(out)
	var local [2]string
	for i := range local {
		require.True(t, lines.Scan())
		address, _, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "Forwarding from "), " to port ")
		require.True(t, ok, lines.Text())
		local[i] = address
	}
	_, err := http.Get("http://" + local[1]) //nolint:bodyclose // there is none
	require.Error(t, err)
	program.Start()
	defer program.Close()
	for range 2 {
		resp, err := http.Get("http://" + local[0])
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, "hello", string(text))
		http.DefaultClient.CloseIdleConnections()
	}
	b.Locked(func() { b.Claims[0].State = claim.Released })
	_, err = http.Get("http://" + local[0]) //nolint:bodyclose // there is none
	require.Error(t, err)
	require.Equal(t, exitFailure, <-ended)
	require.Contains(t, errOut.String(), "nothing listens on the port")
	require.Contains(t, errOut.String(), "claim claim-alice is released")
}

// What cannot be forwarded or linked is refused before anything is opened.
func TestPortArguments(t *testing.T) {
	serveTestBackend(t)
	for _, c := range []struct {
		code int
		text string
		args []string
	}{
		{exitUsage, "requires at least 2", []string{"port-forward", "claim-alice"}},
		{exitUsage, "is not a port", []string{"port-forward", "claim-alice", "x"}},
		{exitUsage, "is not a port", []string{"port-forward", "claim-alice", "0"}},
		{exitUsage, "is not a port", []string{"port-forward", "claim-alice", "80:0"}},
		{exitUsage, "is not a port", []string{"port-forward", "claim-alice", "1:2:3"}},
		{exitUsage, "is not a port", []string{"port-forward", "claim-alice", "65536"}},
		{exitNotFound, "no such claim", []string{"port-forward", "claim-none", "0:80"}},
		{exitUsage, "is not a port", []string{"link", "claim-alice", "http"}},
		{exitFailure, "port-forward", []string{"link", "claim-alice", "80"}},
	} {
		code, out, errOut := hostler(t, "", c.args...)
		require.Equal(t, c.code, code, "%q: %s", c.args, errOut)
		require.Contains(t, errOut, c.text, "%q", c.args)
		require.Empty(t, out)
	}
}
