package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/fake"
)

// A command that is waited for is followed through lost connections to its
// container: nothing of its output is missing or there twice.
func TestExecThroughLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveCommands(t, commandWorkload, nil)
		said, next := make(chan struct{}), make(chan struct{})
		s.RT.AddProgram("speak", func(_ context.Context, p *fake.Proc) int {
			for i := range 3 {
				fmt.Fprintf(p.Stdout, "%d,", i)
				said <- struct{}{}
				<-next
			}
			return 0
		})
		answer := make(chan string, 1)
		go func() {
			resp, err := s.server.Client().Post(s.server.URL+"/v1/claims/"+s.claim.ID+"/exec", "application/json", strings.NewReader(`{"command":["speak"]}`)) //nolint:noctx // the test ends it
			if err != nil {
				answer <- err.Error()
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body) // the text is compared
			answer <- string(text)
		}()
		for range 3 {
			<-said
			s.RT.LoseCommands(s.claim.Container)
			<-time.After(3 * time.Second) // the longest delay between attempts
			synctest.Wait()
			require.Contains(t, s.exec("GET", "", "").text, `"attached":true`)
			next <- struct{}{}
		}
		require.Contains(t, <-answer, `"stdout":{"head":"0,1,2,","total":6}`)
	})
}

// A client that disconnects, and a server that stops, end the command that they
// wait for.
func TestExecEndsWithItsClient(t *testing.T) {
	for name, leave := range map[string]func(*commandServer, context.CancelFunc){
		"client": func(_ *commandServer, cancel context.CancelFunc) { cancel() },
		"server": func(s *commandServer, _ context.CancelFunc) { s.api.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endCommand(t, leave) })
		})
	}
}

func endCommand(t *testing.T, leave func(*commandServer, context.CancelFunc)) {
	t.Helper()
	s := serveCommands(t, commandWorkload, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL+"/v1/claims/"+s.claim.ID+"/exec", strings.NewReader(`{"id":"c","command":["box","hang"]}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := s.server.Client().Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	command := func() response { return s.exec("GET", "/c", "") }
	synctest.Wait()
	require.Equal(t, 200, command().status)
	leave(s, cancel)
	<-done
	synctest.Wait()
	got := command()
	require.True(t, got.status == 404 || strings.Contains(got.text, `"signal":"SIGTERM"`), got.text)
}
