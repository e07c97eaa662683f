package hooks

import (
	"time"

	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
)

// Kind is the name of a kind of action: its key in the workload file, and the
// action of a run on the wire.
type Kind string

// The kinds.
const (
	KindCommand Kind = "command"
	KindScript  Kind = "script"
	KindHTTP    Kind = "http"
	KindWebhook Kind = "webhook"
	KindBuiltin Kind = "builtin"
)

// KindRule describes a kind of action. It is the same for every workload.
type KindRule struct {
	Kind Kind
	// InContainer reports whether the action runs in the container. Otherwise it
	// runs on the server: also where the container does not run, and it is not
	// part of the workload's revision.
	InContainer    bool
	DefaultTimeout time.Duration
	MaxTimeout     time.Duration // 0: that of the point
	Doc            string
}

var kinds = []KindRule{
	{Kind: KindCommand, InContainer: true, DefaultTimeout: DefaultTimeout, Doc: "Runs a command in the container."},
	{Kind: KindScript, InContainer: true, DefaultTimeout: DefaultTimeout, Doc: "Runs a shell script in the container. Its text is never an argument of a process."},
	{Kind: KindHTTP, DefaultTimeout: DefaultRequestTimeout, MaxTimeout: MaxRequestTimeout, Doc: "Sends an HTTP request from the server."},
	{Kind: KindWebhook, DefaultTimeout: DefaultRequestTimeout, MaxTimeout: MaxRequestTimeout, Doc: "Posts the event, or a body, from the server to a URL, signed if sign is given."},
	{Kind: KindBuiltin, DefaultTimeout: DefaultRequestTimeout, MaxTimeout: MaxRequestTimeout, Doc: "Calls a function of the server."},
}

// Kinds returns all kinds, in the order of the documentation.
func Kinds() []KindRule { return append([]KindRule(nil), kinds...) }

// Rule returns the rule of k, or the zero KindRule if k is not a kind.
func (k Kind) Rule() KindRule {
	for _, r := range kinds {
		if r.Kind == k {
			return r
		}
	}
	return KindRule{}
}

// Action is what a hook does, as data. There is one type for each kind of
// record, and package hooks/runner has an executor for each kind.
type Action interface {
	// Kind returns the kind of the action.
	Kind() Kind
	// Summary returns what events show of the action: the argv of a command. It
	// has no secrets.
	Summary() []string
	// Names returns the names of the variables in its templates, some perhaps
	// more than once.
	Names() []string
}

// Process is how a command or a script runs in the container.
type Process struct {
	User        string // empty: the container's
	Workdir     string // empty: the container's; of a script, the workspace
	Environment map[string]variables.Template
	Limits      ProcessLimits
	Grace       *time.Duration // between SIGTERM and SIGKILL; nil: the default
}

// Names implements Action.
func (p Process) Names() []string { return namesOf(p.Environment) }

// namesOf returns the names in templates.
func namesOf(all map[string]variables.Template) []string {
	var names []string
	for _, t := range all {
		names = append(names, t.Names()...)
	}
	return names
}

// ProcessLimits are limits of each process of a command or a script. 0: no limit.
type ProcessLimits struct {
	CPUTime  time.Duration // whole seconds
	Memory   int64         // bytes of address space
	FileSize int64         // bytes of each file that it writes
	Output   int64         // bytes of stdout and stderr together
}

// Command is the action that runs a command in the container.
type Command struct {
	Args []string // argv
	Process
}

// Kind returns KindCommand.
func (c Command) Kind() Kind { return KindCommand }

// Summary returns the argv. It omits the environment: values may be secret.
func (c Command) Summary() []string { return c.Args }

// MaxScript is the maximum length of a script in bytes.
const MaxScript = runtime.MaxScript

// Script is the action that runs a shell script in the container.
type Script struct {
	Text  string   // at most MaxScript
	Shell []string // argv of the shell, such as /bin/sh
	Process
}

// Kind returns KindScript.
func (s Script) Kind() Kind { return KindScript }

// Summary returns the argv of the shell.
func (s Script) Summary() []string { return s.Shell }

// Request is the action that sends an HTTP request from the server: one of kind
// http, or of kind webhook.
type Request struct {
	Webhook bool // kind webhook
	Method  string
	URL     variables.Template
	Headers map[string]variables.Template
	// Body is the body. If it is nil, a webhook sends the envelope of the event,
	// and another request has no body.
	Body   *variables.Template
	Auth   Auth
	Sign   string // of a webhook: the secret that signs it; empty for none
	Expect []int  // statuses that are a success; empty: any 2xx
	// Capture has the path into the JSON response of each name to capture.
	Capture      map[string]variables.Path
	KeepResponse bool // record the first bytes of the response
	// ResponseAs is the name under which the first bytes of the response are
	// captured; empty if no hook names it.
	ResponseAs string
}

// Kind returns KindWebhook or KindHTTP.
func (r Request) Kind() Kind {
	if r.Webhook {
		return KindWebhook
	}
	return KindHTTP
}

// Summary returns the method and, if no variable is in it, the host of the URL.
// Paths and queries may be secret.
func (r Request) Summary() []string { return []string{r.Method, r.URL.Host()} }

// Names implements Action.
func (r Request) Names() []string {
	names := append(r.URL.Names(), namesOf(r.Headers)...)
	if r.Body != nil {
		names = append(names, r.Body.Names()...)
	}
	return names
}

// AuthType is a way to authenticate a request.
type AuthType string

// The ways.
const (
	AuthNone              AuthType = ""
	AuthBearer            AuthType = "bearer"
	AuthAPIKey            AuthType = "api_key"
	AuthGCP               AuthType = "gcp"
	AuthGCPServiceAccount AuthType = "gcp_service_account"
)

// Auth is how a request is authenticated.
type Auth struct {
	Type   AuthType
	Secret string // its name; of bearer, api_key and gcp_service_account
	Header string // of api_key
}

// Builtin is the action that calls a function of the server.
type Builtin struct {
	Name string
	With map[string]any // its options, as in the file
}

// Kind returns KindBuiltin.
func (b Builtin) Kind() Kind { return KindBuiltin }

// Summary returns the name.
func (b Builtin) Summary() []string { return []string{b.Name} }

// Names returns nil: options have no templates.
func (Builtin) Names() []string { return nil }

// Secret is where the value of a declared secret is. Either field is set.
type Secret struct {
	File string // a name in the server's directory of credentials
	Env  string // a variable of the server's environment: HOSTLER_SECRET_…
}
