package api

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// execPath is the path of the commands of a claim.
const execPath = "/v1/claims/{id}/exec"

// commandRoutes registers the routes of commands.
func (a *API) commandRoutes() {
	handle(a, op("exec", "POST "+execPath, "Run a command in a claim's container"), a.exec)
	handle(a, op("list-commands", "GET "+execPath, "List the commands of a claim"), a.listCommands)
	handle(a, op("get-command", "GET "+execPath+"/{command}", "Show a command"), a.getCommand)
	handle(a, op("end-command", "DELETE "+execPath+"/{command}", "End a command"), a.endCommand)
	handle(a, op("signal-command", "POST "+execPath+"/{command}/signal", "Send a signal to a command"), a.signalCommand)
	handle(a, op("resize-command", "POST "+execPath+"/{command}/resize", "Change the size of a command's terminal"), a.resizeCommand)
	handle(a, op("command-output", "GET "+execPath+"/{command}/output", "Stream the output of a command"), a.commandOutput)
	handle(a, op("ack-command", "POST "+execPath+"/{command}/ack", "Acknowledge output of a command"), a.ackCommand)
	handle(a, op("command-input", "POST "+execPath+"/{command}/input", "Send input to a command"), a.commandInput)
	a.handleSocket(op("start-command", "GET "+execPath+"/attach", "Start a command over a WebSocket"), a.startSocket)
	a.handleSocket(op("attach-command", "GET "+execPath+"/{command}/attach", "Attach to a command over a WebSocket"), a.attachSocket)
}

// handleSocket registers a route that becomes a WebSocket.
func (a *API) handleSocket(o huma.Operation, serve http.HandlerFunc) {
	o = a.documented(o)
	text := &huma.Schema{Type: huma.TypeString}
	o.Parameters = []*huma.Param{{Name: "id", In: "path", Required: true, Schema: text, Description: "The claim's id."}}
	if strings.Contains(o.Path, "{command}") {
		zero := 0.0
		o.Parameters = append(o.Parameters,
			&huma.Param{Name: "command", In: "path", Required: true, Schema: text, Description: "The command's id."},
			&huma.Param{Name: "after", In: "query", Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &zero}, Description: "The output from this offset on."})
	}
	schemas := a.huma.OpenAPI().Components.Schemas
	o.Responses["101"] = &huma.Response{Description: "A WebSocket of SocketMessage and SocketEvent, and of binary messages.", Content: map[string]*huma.MediaType{
		"application/json": {Schema: &huma.Schema{AnyOf: []*huma.Schema{
			schemas.Schema(reflect.TypeFor[SocketMessage](), true, "SocketMessage"),
			schemas.Schema(reflect.TypeFor[SocketEvent](), true, "SocketEvent"),
		}}},
	}}
	a.huma.OpenAPI().AddOperation(&o)
	patternRecorder{a}.HandleFunc(o.Method+" "+o.Path, serve)
}

// commandDescriptions are the descriptions of the operations of commands.
var commandDescriptions = map[string]string{
	"exec":           "Waits for the command's end; a client that disconnects ends it. With detach it answers at once: read its output, send its input and end it with the other operations. At most 32 commands run at once in a container. They are ended before the claim's pre_release hooks.",
	"list-commands":  "Those that run, and those that ended in the last two minutes, unless a client has received the end and acknowledged all of the output.",
	"end-command":    "SIGTERM, and SIGKILL after a grace period, to all of its processes. It answers when none is left. Ending it twice is 200.",
	"ack-command":    "The container keeps output until it is acknowledged.",
	"get-command":    "With its result, if it has ended in the last two minutes; see the list.",
	"resize-command": "Its processes get SIGWINCH. Without a terminal it does nothing.",
	"signal-command": "To the processes of the command's group, and with a terminal to those in the foreground.",
	"command-output": "Lines of JSON until the command has ended; empty lines are heartbeats. The container keeps 1 MiB until it is acknowledged, and then the command waits in its next write: acknowledge while you read. A connection that was lost continues with after set to the offset after the last byte received. A second reader takes the place of the first, which gets attached_elsewhere.",
	"command-input":  "The body is the input. The answer has how much of it the command's container has received, within 20 seconds: a command that does not read delays the rest, and the client sends it again.",
	"start-command":  "The first message is text: {\"type\":\"start\",\"start\":{...}} with the body of exec. From then on it is as attach-command.",
	"attach-command": "A binary message begins with a byte: 0 stdin, of the client; 1 stdout and 2 stderr, of the server, in the order of their offsets from that of the first message on. Text messages are JSON. Messages of a client are at most 64 KiB, and at most 256 KiB of its input may be sent that no message input has confirmed. The server pings every 15 seconds.",
}

// describeCommands describes the two bodies of exec, and streams.
func describeCommands(doc *huma.OpenAPI) {
	schema := func(v any, name string) map[string]*huma.MediaType {
		s := doc.Components.Schemas.Schema(reflect.TypeOf(v), true, name)
		return map[string]*huma.MediaType{"application/json": {Schema: s}}
	}
	exec := doc.Paths[execPath].Post.Responses
	created := *exec["200"]
	created.Description = http.StatusText(http.StatusCreated) + ", detached. A repeated request is answered with 200."
	created.Content = schema(ClaimCommand{}, "ClaimCommand")
	exec["201"] = &created
	completed, command := schema(CompletedCommand{}, "CompletedCommand"), created.Content["application/json"].Schema
	exec["200"].Content = map[string]*huma.MediaType{"application/json": {
		Schema: &huma.Schema{AnyOf: []*huma.Schema{completed["application/json"].Schema, command}},
	}}
	// Also for the requests: input may end without more of it.
	doc.Paths[execPath+"/{command}/input"].Post.RequestBody.Required = false
	line := schema(CommandLine{}, "CommandLine")["application/json"]
	output := doc.Paths[execPath+"/{command}/output"].Get.Responses["200"]
	output.Content = map[string]*huma.MediaType{typeNDJSON: line}
	for _, name := range []string{"ClaimCommand", "CompletedCommand", "CommandLine"} {
		for _, p := range doc.Components.Schemas.Map()[name].Properties {
			p.Nullable = false
		}
	}
}
