package hooks

import "strings"

// reservedHeaders are headers of a request that its action cannot set: they
// determine the connection or the size of the message, or the server sets them.
var reservedHeaders = []string{
	"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	strings.ToLower(HeaderID), strings.ToLower(HeaderKey), "webhook-id", "webhook-signature", "webhook-timestamp",
}

// headerChars are the characters of a header's name.
const headerChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"

// IsHeaderAllowed reports whether a request can set the header of a name.
func IsHeaderAllowed(name string) bool {
	name = strings.ToLower(name)
	if name == "" || strings.Trim(name, headerChars) != "" || strings.HasPrefix(name, "proxy-") {
		return false
	}
	for _, reserved := range reservedHeaders {
		if name == reserved {
			return false
		}
	}
	return true
}
