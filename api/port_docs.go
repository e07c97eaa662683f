package api

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// portMethods are the methods of requests to programs, with the summaries of their
// operations.
var portMethods = []struct{ method, summary string }{
	{http.MethodGet, "Send a GET to a program in a claim's container, or open a WebSocket"},
	{http.MethodHead, "Send a HEAD to a program in a claim's container"},
	{http.MethodPost, "Send a POST to a program in a claim's container"},
	{http.MethodPut, "Send a PUT to a program in a claim's container"},
	{http.MethodPatch, "Send a PATCH to a program in a claim's container"},
	{http.MethodDelete, "Send a DELETE to a program in a claim's container"},
	{http.MethodOptions, "Send an OPTIONS to a program in a claim's container"},
}

const (
	describePort = "The request is passed on to the program that listens on the port, on the container's loopback interface or any other one, " +
		"and so is its response, whatever its status. A response of this server itself is a problem. The program does not get Authorization, X-API-Key and cookies. " +
		"What would act on this API's origin is removed from its response, which is sandboxed, and a redirect that leaves the port is in Hostler-Location. " +
		"A path /links takes no POST here. With a port domain, every port has a host of its own, PORT-CLAIM.DOMAIN, without these restrictions. " +
		"At most 256 requests and 256 connections of a claim, and 512 of a tenant, are open at once."
	describeConnection = "With the headers Connection: Upgrade and Upgrade: tcp. After the response 101 the connection carries the bytes of a TCP connection " +
		"to the port, in both directions. It ends with the claim. HTTP/1.1 only."
)

// portRoutes registers the routes of ports. Requests to programs are served before
// any other route is looked up (see serveAtPort): here they are described.
func (a *API) portRoutes() {
	link := op("create-link", "POST /v1/claims/{id}/ports/{port}"+linksPath, "Make a link to a port, for a browser")
	link.Description = "Needs the server's port domain. Who has the link can use the port until it expires, or until the claim ends."
	handle(a, link, a.createLink)

	connection := op("connect-port", "POST /v1/claims/{id}/ports/{port}", "Connect to a port of a claim's container")
	connection.Description = describeConnection
	connection.Responses = map[string]*huma.Response{"101": {Description: "The connection is open."}}
	a.describePortRoute(connection, false)
	for _, m := range portMethods {
		o := op("port-"+strings.ToLower(m.method), m.method+" /v1/claims/{id}/ports/{port}/{path}", m.summary)
		o.Description = describePort
		o.Responses = map[string]*huma.Response{"200": {
			Description: "The program's response, of any status.",
			Content:     map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}},
		}}
		a.describePortRoute(o, true)
	}
}

// describePortRoute adds an operation with its parameters to the document.
func (a *API) describePortRoute(o huma.Operation, hasPath bool) {
	least, most := 1.0, 65535.0
	text := &huma.Schema{Type: huma.TypeString}
	o.Parameters = []*huma.Param{
		{Name: "id", In: "path", Required: true, Schema: text, Description: "The claim's id."},
		{Name: "port", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int32", Minimum: &least, Maximum: &most}, Description: "The port in the container."},
	}
	if hasPath {
		o.Parameters = append(o.Parameters, &huma.Param{
			Name: "path", In: "path", Required: true, Schema: text, Description: "The path that the program gets, without its first slash. It may have slashes, and may be empty.",
		})
		switch o.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			o.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}}}
		}
	}
	o = a.documented(o)
	a.huma.OpenAPI().AddOperation(&o)
	a.patterns = append(a.patterns, o.Method+" "+o.Path)
}
