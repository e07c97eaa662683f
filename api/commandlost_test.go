package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/fake"
)

// A command that is waited for is followed through lost connections to its
// container: nothing of its output is missing or there twice.
func TestExecThroughLostConnections(t *testing.T) {
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
		resp, err := http.Post(s.url+"/v1/claims/"+s.claim.ID+"/exec", "application/json", strings.NewReader(`{"command":["speak"]}`)) //nolint:noctx // the test ends it
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
		require.Eventually(t, func() bool { return strings.Contains(s.exec("GET", "", "").text, `"attached":true`) }, time.Minute, 5*time.Millisecond)
		next <- struct{}{}
	}
	require.Contains(t, <-answer, `"stdout":{"head":"0,1,2,","total":6}`)
}
