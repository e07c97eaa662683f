package api

import "net/http"

// keyRoutes registers the routes of keys, tokens and bindings.
func (a *API) keyRoutes() {
	create := op("create-key", "POST /v1/keys", "Create a key")
	create.DefaultStatus = http.StatusCreated
	handle(a, create, a.createKey)
	handle(a, op("list-keys", "GET /v1/keys", "List the keys"), a.listKeys)
	handle(a, op("get-key", "GET /v1/keys/{name}", "Show a key"), a.getKey)
	handle(a, op("revoke-key", "DELETE /v1/keys/{name}", "Revoke a key"), a.revokeKey)
	token := op("create-token", "POST /v1/tokens", "Make a short-lived token for a tenant")
	token.DefaultStatus = http.StatusCreated
	handle(a, token, a.createToken)
	handle(a, op("list-bindings", "GET /v1/bindings", "List the bindings"), a.listBindings)
	handle(a, op("get-binding", "GET /v1/bindings/{name}", "Show a binding"), a.getBinding)
	handle(a, op("put-binding", "PUT /v1/bindings/{name}", "Add or change a binding"), a.putBinding)
	handle(a, op("delete-binding", "DELETE /v1/bindings/{name}", "Delete a binding"), a.deleteBinding)
	handle(a, op("whoami", "GET /v1/whoami", "Show who sends the request"), a.whoAmI)
	handle(a, op("can-i", "GET /v1/can-i", "Show whether an operation is permitted"), a.canI)
}

// keyTags are the tags of the operations whose path begins otherwise.
var keyTags = map[string]string{"tokens": "keys", "bindings": "keys", "whoami": "keys", "can-i": "keys"}

// keyDescriptions are the descriptions of these operations.
var keyDescriptions = map[string]string{
	"create-key":     "The key is in the member key of the response, and is shown only there: the server keeps a hash. The first credential of a server must be an operator's. Where a server accepted every client of its machine before, closed is true: it requires a credential from here on.",
	"list-keys":      "With those of the key file, and those that were revoked or have expired, as long as their records are kept.",
	"get-key":        "Without its secret.",
	"revoke-key":     "It is refused at once, by other servers on the database within 2 s, and open streams of its holders end. To revoke it again changes nothing. A key of the key file is removed there.",
	"create-token":   "For a program or a browser of a tenant. It is not stored: it ends when it expires, or when the credential that made it does. It never permits more than that credential does.",
	"list-bindings":  "With those of the bindings file.",
	"get-binding":    "As it applies.",
	"put-binding":    "Replaces the binding of that name. Requests of subjects that lose a role or a tenant end.",
	"delete-binding": "Requests of its subjects that have no other binding are refused from here on.",
	"whoami":         "For every credential, whatever it permits.",
	"can-i":          "For the caller itself, by the rules that its requests are judged by. What is not named may be anything that the credential is for. The response does not depend on whether things exist: a claim of another tenant is like none.",
}
