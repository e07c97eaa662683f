package api

import (
	"net/http"
	"reflect"

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
}

// commandDescriptions are the descriptions of the operations of commands.
var commandDescriptions = map[string]string{
	"exec":           "Waits for the command's end; a client that disconnects ends it. With detach it answers at once: read its output, send its input and end it with the other operations. At most 32 commands run at once in a container. They are ended before the claim's pre_release hooks.",
	"list-commands":  "Those that run, and those that ended in the last two minutes, unless all of their output was acknowledged.",
	"end-command":    "SIGTERM, and SIGKILL after a grace period, to all of its processes. It answers when none is left. Ending it twice is 200.",
	"get-command":    "With its result, if it has ended in the last two minutes and not all of its output was acknowledged.",
	"resize-command": "Its processes get SIGWINCH. Without a terminal it does nothing.",
	"signal-command": "To the processes of the command's group, and with a terminal to those in the foreground.",
	"command-output": "Lines of JSON until the command has ended; empty lines are heartbeats. The container keeps 1 MiB until it is acknowledged, and then the command waits in its next write: acknowledge while you read. A connection that was lost continues with after set to the offset after the last byte received. A second reader takes the place of the first, which gets attached_elsewhere.",
	"command-input":  "The body is the input. The answer has how much of it the command's container has received, within 20 seconds: a command that does not read delays the rest, and the client sends it again.",
	"ack-command":    "Once a command has ended and all of its output is acknowledged, the container forgets it.",
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
	line := schema(CommandLine{}, "CommandLine")["application/json"]
	output := doc.Paths[execPath+"/{command}/output"].Get.Responses["200"]
	output.Content = map[string]*huma.MediaType{typeNDJSON: line}
	for _, name := range []string{"ClaimCommand", "CompletedCommand", "CommandLine"} {
		for _, p := range doc.Components.Schemas.Map()[name].Properties {
			p.Nullable = false
		}
	}
}
