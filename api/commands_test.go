package api_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/internal/pipetest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

const commandWorkload = "id: w\nimage: box\ncommand: [box, idle]\nuser: \"1000\"\npool: { min_idle: 1, max_size: 4 }\n"

// commandServer is a server with a claim, and an API of it.
type commandServer struct {
	*flowtest.Harness
	claim  claim.Claim
	server *pipetest.Server
	api    *api.API
}

// serveCommands serves an API for the claim of a workload.
func serveCommands(t *testing.T, file string, change func(*access.Options)) *commandServer {
	t.Helper()
	h := flowtest.New(t)
	h.Apply(file)
	h.RT.AddProgram("copy", copyInput)
	s := &commandServer{Harness: h, claim: h.Claim("w", "ada")}
	o := apitest.New().Options()
	o.Access = h.Access(change)
	o.Heartbeat = 20 * time.Millisecond
	s.api = api.New(o)
	s.server = pipetest.NewServer(t, s.api)
	t.Cleanup(s.api.Close)
	return s
}

// copyInput copies its input to its output, and reports its end on stderr.
func copyInput(_ context.Context, p *fake.Proc) int {
	n, err := io.Copy(p.Stdout, p.Stdin)
	if err != nil {
		return 1
	}
	fmt.Fprintf(p.Stderr, "%d bytes", n)
	return 3
}

// exec makes a request below the path of the claim's commands.
func (s *commandServer) exec(method, path, body string, headers ...string) response {
	s.T.Helper()
	t, ok := s.T.(*testing.T)
	require.True(s.T, ok)
	return request(t, s.server, method+" /v1/claims/"+s.claim.ID+"/exec"+path, body, headers...)
}

// start starts a detached command and returns its id.
func (s *commandServer) start(body string) string {
	s.T.Helper()
	a := s.exec("POST", "", body)
	require.Equal(s.T, 201, a.status, a.text)
	id, ok := a.body["id"].(string)
	require.True(s.T, ok, a.text)
	return id
}

// outputStream is a stream of output.
type outputStream struct {
	t     testing.TB
	body  io.ReadCloser
	lines *bufio.Scanner
}

// follow opens the stream of output of a command.
func (s *commandServer) follow(id string, after int64) *outputStream {
	s.T.Helper()
	url := fmt.Sprintf("%s/v1/claims/%s/exec/%s/output?after=%d", s.server.URL, s.claim.ID, id, after)
	r, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, url, nil)
	require.NoError(s.T, err)
	resp, err := s.server.Client().Do(r)
	require.NoError(s.T, err)
	require.Equal(s.T, 200, resp.StatusCode)
	require.Equal(s.T, "application/x-ndjson", resp.Header.Get("Content-Type"))
	s.T.Cleanup(func() { resp.Body.Close() })
	return &outputStream{s.T, resp.Body, bufio.NewScanner(resp.Body)}
}

// next returns the next line that is no heartbeat.
func (o *outputStream) next() api.CommandLine {
	o.t.Helper()
	for o.lines.Scan() {
		if len(o.lines.Bytes()) == 0 {
			continue
		}
		var line api.CommandLine
		require.NoError(o.t, json.Unmarshal(o.lines.Bytes(), &line), o.lines.Text())
		return line
	}
	require.NoError(o.t, o.lines.Err())
	o.t.Fatal("the stream has ended")
	return api.CommandLine{}
}

// A command that is waited for is answered with its exit code and its output, as a
// run of a hook has them.
func TestExecWaits(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	a := s.exec("POST", "", `{"command":["copy"],"stdin":"hello"}`)
	require.Equal(t, 200, a.status, a.text)
	require.InDelta(t, 3, a.body["exit_code"], 0)
	require.Equal(t, map[string]any{"head": "hello", "total": 5.0}, a.body["stdout"])
	require.Equal(t, map[string]any{"head": "5 bytes", "total": 7.0}, a.body["stderr"])
	require.NotContains(t, a.body, "signal")

	a = s.exec("POST", "", `{"command":["box","hang"],"timeout":"50ms"}`)
	require.Equal(t, true, a.body["timed_out"], a.text)
	require.Equal(t, "SIGTERM", a.body["signal"], a.text)
	require.Equal(t, `{"items":[]}`+"\n", s.exec("GET", "", "").text, "it is forgotten")
}

// Input is sent in parts. What was received already is ignored, and what follows a
// gap is not accepted: the answer has where to continue.
func TestCommandInputAndOutput(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	id := s.start(`{"command":["copy"],"detach":true,"input":true}`)
	send := func(query, body string) string {
		a := s.exec("POST", "/"+id+"/input"+query, body, "application/octet-stream")
		require.Equal(t, 200, a.status, a.text)
		return strings.TrimSpace(a.text)
	}
	out := s.follow(id, 0)
	require.Equal(t, &api.CommandStart{ID: id}, out.next().Start)
	require.JSONEq(t, `{"received":3}`, send("", "abc"))
	require.JSONEq(t, `{"received":5}`, send("?offset=1", "bcde"))
	require.JSONEq(t, `{"received":5}`, send("?offset=9", "x"))
	require.JSONEq(t, `{"received":6,"closed":true}`, send("?offset=5&close=true", "f"))
	text := ""
	for len(text) < 6 {
		line := out.next()
		require.EqualValues(t, len(text), line.Offset)
		require.Equal(t, "stdout", line.Stream)
		text += string(line.Data)
	}
	require.Equal(t, "abcdef", text)
	require.Equal(t, api.CommandLine{Offset: 6, Stream: "stderr", Data: []byte("6 bytes")}, out.next())
	end := out.next().End
	require.NotNil(t, end)
	require.Equal(t, 3, end.ExitCode)

	again := s.follow(id, 4)
	require.EqualValues(t, 4, again.next().Start.Offset)
	require.Equal(t, byte('e'), again.next().Data[0], "it is kept until it is acknowledged")
	require.Equal(t, 410, s.exec("GET", "/"+id+"/output?after=3", "").status, "it was acknowledged by the second reader")
}

// The bytes of a stream are those of the command, whether they are text or not.
func TestOutputIsExact(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	id := s.start(`{"command":["copy"],"detach":true,"input":true}`)
	binary := string([]byte{0, 0xff, 0xc3, '\n', '"', 0x1b})
	a := s.exec("POST", "/"+id+"/input?close=true", binary, "application/octet-stream")
	require.Equal(t, 200, a.status, a.text)
	out := s.follow(id, 0)
	out.next()
	require.True(t, out.lines.Scan())
	require.Contains(t, out.lines.Text(), base64.StdEncoding.EncodeToString([]byte(binary)))
}

// A second reader takes the place of the first, which learns why. A command that is
// only controlled keeps its reader.
func TestReaderIsReplacedByReaderOnly(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	id := s.start(`{"command":["copy"],"detach":true,"input":true}`)
	first := s.follow(id, 0)
	first.next()
	require.Equal(t, 204, s.exec("POST", "/"+id+"/ack", `{"offset":0}`).status)
	require.Equal(t, 204, s.exec("POST", "/"+id+"/resize", `{"rows":24,"columns":80}`).status)
	require.Equal(t, 204, s.exec("POST", "/"+id+"/signal", `{"signal":"SIGWINCH"}`).status)
	require.Equal(t, 200, s.exec("POST", "/"+id+"/input", "x", "application/octet-stream").status)
	require.Equal(t, "x", string(first.next().Data))
	s.follow(id, 0).next()
	line := first.next()
	require.NotNil(t, line.Error)
	require.Equal(t, api.AttachedElsewhere, line.Error.Code)
}

// A command whose output is not acknowledged waits, and nothing of it is lost.
func TestOutputWaitsForAcknowledgment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveCommands(t, commandWorkload, nil)
		s.RT.AddProgram("pour", func(_ context.Context, p *fake.Proc) int {
			for i := range 3 * runtime.CommandBuffer / 1024 {
				fmt.Fprintf(p.Stdout, "%01023d\n", i)
			}
			return 0
		})
		id := s.start(`{"command":["pour"],"detach":true}`)
		synctest.Wait()
		require.Contains(t, s.exec("GET", "/"+id, "").text, `"held":true`)
		out := s.follow(id, 0)
		out.lines.Buffer(nil, 4<<20)
		out.next()
		var received, acknowledged int64
		for {
			line := out.next()
			if line.End != nil {
				break
			}
			require.Nil(t, line.Error)
			require.Equal(t, received, line.Offset)
			received += int64(len(line.Data))
			if received-acknowledged >= runtime.CommandBuffer/2 {
				a := s.exec("POST", "/"+id+"/ack", fmt.Sprintf(`{"offset":%d}`, received))
				require.Equal(t, 204, a.status, a.text)
				acknowledged = received
			}
		}
		require.EqualValues(t, 3*runtime.CommandBuffer, received)
	})
}

// Commands are listed, signalled and ended, and ending one twice is no error.
func TestCommandsAreEnded(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	require.Equal(t, "c-1", s.start(`{"id":"c-1","command":["box","hang"],"detach":true}`))
	a := s.exec("POST", "", `{"id":"c-1","command":["box","hang"],"detach":true}`)
	require.Equal(t, 200, a.status, "a repeated request starts no second one")
	s.start(`{"id":"c-2","command":["box","hang"],"detach":true}`)
	a = s.exec("GET", "", "")
	require.Equal(t, 1, strings.Count(a.text, `"id":"c-1","command":["box","hang"]`), a.text)

	a = s.exec("DELETE", "/c-1", "")
	require.Equal(t, 200, a.status, a.text)
	result, ok := a.body["result"].(map[string]any)
	require.True(t, ok, a.text)
	require.Equal(t, "SIGTERM", result["signal"])
	require.Equal(t, 200, s.exec("DELETE", "/c-1", "").status)
	require.Equal(t, 204, s.exec("POST", "/c-2/signal", `{"signal":"SIGKILL"}`).status)
	out := s.follow("c-2", 0)
	out.next()
	require.Equal(t, "SIGKILL", out.next().End.Signal)
}

// Each error of a command has its status and its code.
func TestCommandErrors(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	for _, tt := range []struct {
		route, body string
		status      int
		code        api.Code
		want        string
	}{
		{"POST ", `{"command":[]}`, 422, api.InvalidRequest, "command"},
		{"POST ", `{"command":[""]}`, 422, api.InvalidRequest, "command[0]"},
		{"POST ", `{"command":["a\u0000"]}`, 422, api.InvalidRequest, "command[0]"},
		{"POST ", `{"command":["x"],"timeout":"25h"}`, 422, api.InvalidRequest, "timeout"},
		{"POST ", `{"command":["x"],"timeout":"-1s"}`, 422, api.InvalidRequest, "timeout"},
		{"POST ", `{"command":["x"],"workdir":"tmp"}`, 422, api.InvalidRequest, "workdir"},
		{"POST ", `{"command":["x"],"environment":{"1":"x"}}`, 422, api.InvalidRequest, "environment"},
		{"POST ", `{"command":["x"],"user":"root"}`, 422, api.InvalidRequest, "user"},
		{"POST ", `{"command":["x"],"user":"0:0"}`, 422, api.InvalidRequest, "user"},
		{"POST ", `{"command":["x"],"user":"1001"}`, 422, api.InvalidRequest, "user"},
		{"POST ", `{"command":["x"],"id":"a/b"}`, 422, api.InvalidRequest, "id"},
		{"POST ", `{"command":["x"],"id":"attach"}`, 422, api.InvalidRequest, "id"},
		{"POST ", `{"command":["x"],"terminal":{"rows":0,"columns":80},"detach":true}`, 422, api.InvalidRequest, "terminal"},
		{"POST ", `{"command":["x"],"terminal":{"rows":24,"columns":80}}`, 422, api.InvalidRequest, "terminal"},
		{"POST ", `{"command":["x"],"stdin":"x","detach":true}`, 422, api.InvalidRequest, "stdin"},
		{"POST ", `{"command":["x"]}`, 422, api.CommandNotStarted, "binary_not_found"},
		{"POST ", `{"command":["x"],"detach":true}`, 422, api.CommandNotStarted, "binary_not_found"},
		{"GET /none", "", 404, api.CommandNotFound, ""},
		{"DELETE /none", "", 404, api.CommandNotFound, ""},
		{"GET /none/output", "", 404, api.CommandNotFound, ""},
		{"GET /none/output?after=-1", "", 422, api.InvalidRequest, "after"},
		{"GET /no%20ne/output", "", 404, api.CommandNotFound, ""},
		{"POST /none/input", "x", 404, api.CommandNotFound, ""},
		{"POST /none/ack", `{"offset":1}`, 404, api.CommandNotFound, ""},
		{"POST /none/signal", `{"signal":"SIGTERM"}`, 404, api.CommandNotFound, ""},
		{"POST /none/signal", `{"signal":"SIGNONE"}`, 422, api.InvalidRequest, "signal"},
		{"POST /none/resize", `{"rows":0,"columns":1}`, 422, api.InvalidRequest, "terminal"},
	} {
		method, path, _ := strings.Cut(tt.route, " ")
		contentType := "application/json"
		if strings.HasSuffix(path, "/input") {
			contentType = "application/octet-stream"
		}
		a := s.exec(method, path, tt.body, contentType)
		require.Equal(t, tt.status, a.status, "%s %s: %s", tt.route, tt.body, a.text)
		require.Equal(t, string(tt.code), a.body["code"], a.text)
		require.Contains(t, a.text, tt.want)
	}
}

// The errors of the container have their codes, and a claim that has ended runs
// nothing.
func TestContainerErrorsOfCommands(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	for _, tt := range []struct {
		err    error
		status int
		code   api.Code
	}{
		{runtime.ErrTooManyCommands, 429, api.TooManyCommands},
		{runtime.ErrUnsupported, 409, api.NotSupported},
		{runtime.ErrStaleFence, 409, api.ClaimNotActive},
		{runtime.ErrUnavailable, 503, api.EngineUnavailable},
		{&access.DeniedError{Gate: "exec.before", Hook: "guard", Message: "no"}, 403, api.DeniedByHook},
	} {
		restore := s.RT.Break("open_command", tt.err)
		a := s.exec("POST", "", `{"command":["box","echo","x"]}`)
		require.Equal(t, tt.status, a.status, a.text)
		require.Equal(t, string(tt.code), a.body["code"])
		restore()
	}
	s.Release(s.claim)
	a := s.exec("POST", "", `{"command":["box","echo","x"]}`)
	require.Equal(t, 409, a.status)
	require.Equal(t, string(api.ClaimNotActive), a.body["code"])
}

// refusingGate refuses every command.
type refusingGate struct{ access.Gates }

func (refusingGate) Exec(_ context.Context, _ access.Grant, c access.CommandUse) error {
	return &access.DeniedError{Gate: "exec.before", Hook: "guard", Message: "not " + c.Args[0]}
}

// A command that a gate refuses does not start.
func TestGateRefusesCommand(t *testing.T) {
	s := serveCommands(t, commandWorkload, func(o *access.Options) { o.Gates = refusingGate{} })
	a := s.exec("POST", "", `{"command":["box","echo","x"]}`)
	require.Equal(t, 403, a.status, a.text)
	require.Equal(t, string(api.DeniedByHook), a.body["code"])
	require.Equal(t, "guard", a.body["reason"])
	require.NotContains(t, strings.Join(s.RT.Calls(), "\n"), "open_command")
}

// A command may have another user where the workload runs as root, unless the
// container was created before it did.
func TestUserOfChangedWorkload(t *testing.T) {
	root := strings.Replace(commandWorkload, "1000", "0:0", 1)
	s := serveCommands(t, root, nil)
	require.Equal(t, 200, s.exec("POST", "", `{"command":["box","echo","x"],"user":"1001"}`).status)
	s = serveCommands(t, commandWorkload, nil)
	require.Equal(t, 200, s.exec("POST", "", `{"command":["box","echo","x"],"user":"1000"}`).status)
	s.Apply(root)
	for _, user := range []string{"0", "1000"} {
		require.Equal(t, 422, s.exec("POST", "", `{"command":["box","echo","x"],"user":"`+user+`"}`).status)
	}
}
