package workload

// hookFile is a hook as the file has it: one action with its policy, at a point
// or for events.
type hookFile struct {
	Name string `yaml:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" hint:"letters, digits, dots, dashes and underscores, at most 63" doc:"Unique within its point, and among the hooks for events, which must have one. Default: the point and the index, such as post_claim[0]."`

	Command argv         `yaml:"command" doc:"The command, one argument per element. No shell is added."`
	Script  *scriptText  `yaml:"script" doc:"The text of a script for shell, at most 64 KiB. It is never an argument of a process."`
	HTTP    *requestFile `yaml:"http" doc:"An HTTP request that the server sends."`
	Webhook *webhookFile `yaml:"webhook" doc:"A POST of the event, or of body, that the server sends."`
	Builtin *builtinName `yaml:"builtin" doc:"A function of the server."`

	hookPolicyFile

	Shell shellArgs `yaml:"shell" doc:"The shell of script, one argument per element. Default: [/bin/sh]."`
	With  options   `yaml:"with" doc:"The options of builtin."`
	processFile
	StopOn *stopOnFile `yaml:"stop_on" doc:"When the hook ends its point as a success, without the hooks that follow."`
	On     []string    `yaml:"on" items:"1" unique:"true" pattern:"^.+$" hint:"a type of event" doc:"Of a hook under events: types of events such as claim.released, subjects such as claim for all of its types, or aliases."`
}

// hookPolicyFile is the policy of a hook.
type hookPolicyFile struct {
	Timeout     duration  `yaml:"timeout" default:"30s" min:"1ms" max:"10m" doc:"The timeout of one attempt. After it, the command and all processes that it started are terminated."`
	OnError     string    `yaml:"on_error" default:"fail" enum:"fail,continue,retry,log" doc:"After a failure: the point fails, the next hook runs, or the hook is retried and then fails. log is another name of continue."`
	OnExhausted string    `yaml:"on_exhausted" enum:"fail,continue" doc:"After the last failed retry: the point fails, or the next hook runs. Default: fail at points, continue for events."`
	Idempotent  bool      `yaml:"idempotent" doc:"Run the hook again if the server was killed while it ran and its outcome is unknown. Otherwise it fails then. A builtin runs again always."`
	Retries     *int      `yaml:"retries" min:"1" max:"25" doc:"The max number of retries, after 1 s, 2 s, 4 s and so on; only with on_error: retry. Default: 1 at points, where it is at most 5, and 15 for events."`
	Condition   string    `yaml:"condition" pattern:"^.+$" hint:"a comparison" doc:"When the hook runs: comparisons NAME == literal or NAME != literal, joined by &&. Otherwise it is skipped."`
	Enabled     bool      `yaml:"enabled" default:"true" doc:"false: the hook is skipped."`
	Blocking    *bool     `yaml:"blocking" doc:"false: the flow does not wait; the hook is one for the event of the moment. It then needs a name."`
	Debounce    *duration `yaml:"debounce" min:"1ms" max:"1h" doc:"Of a hook for events: of events that follow each other faster, the last one is delivered, at least every 10 times this duration."`
}

// processFile is how a command or a script runs.
type processFile struct {
	User        userSpec        `yaml:"user" doc:"The user of the hook. Default: the container's user."`
	Workdir     string          `yaml:"workdir" pattern:"^/" hint:"an absolute path" doc:"The working directory. Default: the container's; of a script, the workspace."`
	Environment environment     `yaml:"environment" alias:"env" doc:"Added to the container's environment: a mapping, or a list of NAME=value. Values may have variables. Names that begin with HOSTLER_ are reserved."`
	Limits      *hookLimitsFile `yaml:"limits" doc:"Limits of each process of a command or a script."`
	Grace       *duration       `yaml:"grace" max:"1m" doc:"The time between SIGTERM and SIGKILL after the timeout. Default: 2s."`
}

// requestFile is the action http.
type requestFile struct {
	URL          string      `yaml:"url" required:"true" pattern:"^[^\\x00-\\x20\\x7f]+$" hint:"an http:// or https:// URL without spaces" doc:"Where to. It may have variables."`
	Method       string      `yaml:"method" enum:"GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS" doc:"The method. Default: POST with a body, GET without."`
	Headers      headersFile `yaml:"headers" doc:"Headers. Values may have variables."`
	Body         *string     `yaml:"body" doc:"The body. It may have variables, which are escaped in JSON strings."`
	Auth         *authFile   `yaml:"auth" doc:"How the request is authenticated. Default: none."`
	Expect       []int       `yaml:"expect" min:"100" max:"599" items:"1" unique:"true" doc:"The statuses that are a success. Default: any 2xx."`
	Capture      captureFile `yaml:"capture" doc:"Values of the JSON response to keep for later hooks: names with paths such as $.items[0].id. A name may be used like a variable."`
	KeepResponse bool        `yaml:"keep_response" default:"false" doc:"Record the first 4 KiB of the response."`
}

// webhookFile is the action webhook.
type webhookFile struct {
	URL          string      `yaml:"url" required:"true" pattern:"^[^\\x00-\\x20\\x7f]+$" hint:"an http:// or https:// URL without spaces" doc:"Where to. It may have variables."`
	Headers      headersFile `yaml:"headers" doc:"Headers. Values may have variables."`
	Body         *string     `yaml:"body" doc:"The body. It may have variables, which are escaped in JSON strings. Default: the event as JSON."`
	Sign         string      `yaml:"sign" pattern:"^[A-Za-z_][A-Za-z0-9_]{0,62}$" hint:"the name of a secret" doc:"The secret that signs the request as Standard Webhooks specify."`
	Expect       []int       `yaml:"expect" min:"100" max:"599" items:"1" unique:"true" doc:"The statuses that are a success. Default: any 2xx."`
	Capture      captureFile `yaml:"capture" doc:"Values of the JSON response to keep for later hooks: names with paths such as $.items[0].id. A name may be used like a variable."`
	KeepResponse bool        `yaml:"keep_response" default:"false" doc:"Record the first 4 KiB of the response."`
}

// authFields are the keys of auth as a mapping.
type authFields struct {
	Type   string `yaml:"type" required:"true" enum:"none,bearer,api_key,gcp,gcp_service_account,bearer-token,api-key-header,gcp-default,gcp-service-account" doc:"none; bearer: a token in the Authorization header; api_key: a key in the header header; gcp: the server's Google credentials; gcp_service_account: a service account's key. bearer-token, api-key-header, gcp-default and gcp-service-account are other names."`
	Secret string `yaml:"secret" pattern:"^[A-Za-z_][A-Za-z0-9_]{0,62}$" hint:"the name of a secret" doc:"The secret of bearer, api_key and gcp_service_account."`
	Header string `yaml:"header" pattern:"^[A-Za-z0-9!#$%&'*+.^_|~-]+$" hint:"a header's name" doc:"The header of api_key."`
}

type hookLimitsFile struct {
	CPUTime  duration `yaml:"cpu_time" min:"1s" max:"24h" doc:"CPU time of a process, in whole seconds."`
	Memory   size     `yaml:"memory" min:"1m" max:"16t" doc:"The address space of a process."`
	FileSize size     `yaml:"file_size" min:"1" max:"16t" doc:"The size of a file that a process writes."`
	Output   size     `yaml:"output" min:"1" max:"1t" doc:"The bytes of stdout and stderr together."`
}

type stopOnFile struct {
	Exit []int `yaml:"exit" required:"true" min:"1" max:"255" items:"1" unique:"true" doc:"Exit codes of a command or a script."`
}

// secretFile is where the value of a secret is.
type secretFile struct {
	File string `yaml:"file" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$" hint:"a name in the server's credentials directory, without a leading /" doc:"A file in the server's credentials directory."`
	Env  string `yaml:"env" pattern:"^HOSTLER_SECRET_[A-Z0-9_]+$" hint:"a variable that begins with HOSTLER_SECRET_" doc:"A variable of the server's environment."`
}

// listedHookFile is a hook of a list with on and action (Scion's form).
type listedHookFile struct {
	Name   string       `yaml:"name" required:"true" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" hint:"letters, digits, dots, dashes and underscores, at most 63" doc:"Unique within the file."`
	On     []string     `yaml:"on" required:"true" items:"1" unique:"true" pattern:"^.+$" hint:"a point or a type of event" doc:"Points, types of events, or aliases."`
	Action listedAction `yaml:"action" required:"true" doc:"What the hook does."`
	hookPolicyFile
}

// The actions of such a list, by type.
type (
	listedCommandFile struct {
		Type    string `yaml:"type" required:"true" enum:"command,script" doc:"A command in the container."`
		Command argv   `yaml:"command" required:"true" doc:"The command, one argument per element. No shell is added."`
		processFile
	}
	listedScriptFile struct {
		Type   string      `yaml:"type" required:"true" enum:"script" doc:"A script in the container."`
		Script *scriptText `yaml:"script" required:"true" doc:"The text of a script for shell, at most 64 KiB. It is never an argument of a process."`
		Shell  shellArgs   `yaml:"shell" doc:"The shell of script, one argument per element. Default: [/bin/sh]."`
		processFile
	}
	listedRequestFile struct {
		Type string `yaml:"type" required:"true" enum:"http" doc:"An HTTP request that the server sends."`
		requestFile
	}
	listedWebhookFile struct {
		Type string `yaml:"type" required:"true" enum:"webhook" doc:"A POST of the event, or of body, that the server sends."`
		webhookFile
	}
	listedBuiltinFile struct {
		Type    string       `yaml:"type" required:"true" enum:"builtin" doc:"A function of the server."`
		Builtin *builtinName `yaml:"builtin" required:"true" doc:"Its name."`
		With    options      `yaml:"with" doc:"The options of builtin."`
	}
)

// listedSecretFile is a secret of a list (Scion's form).
type listedSecretFile struct {
	Key         string `yaml:"key" required:"true" pattern:"^[A-Z][A-Z0-9_]{0,62}$" hint:"capital letters, digits and _, at most 63" doc:"The secret's name."`
	Description string `yaml:"description" doc:"For people."`
	Type        string `yaml:"type" default:"environment" enum:"environment,variable,file" doc:"file: the file KEY in the server's credentials directory; environment or variable: HOSTLER_SECRET_KEY."`
}
