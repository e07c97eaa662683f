package workload

// The types of this file are the workload file as it is written, field by
// field. Their tags are the one source of what a file may hold: the decoder
// reads by them, Schema is made of them, and so are the tables of
// docs/workload-file.md.
//
//	yaml      the key
//	alias     another spelling of the key that older files use
//	doc       what it is for
//	required  must be there
//	default   stands for a value that is left out
//	enum      the values allowed, separated by commas
//	pattern   of a text, or of each text in a list; hint says it in words
//	min, max  of a number, a size or a duration
//	items     the least number of elements of a list
//	unique    no element twice

type file struct {
	ID          string           `yaml:"id" required:"true" pattern:"^[a-z][a-z0-9-]{0,62}$" hint:"lower-case letters, digits and dashes, beginning with a letter, at most 63" doc:"Names the workload in the API, on the command line and in events."`
	Name        string           `yaml:"name" pattern:"^[^\\x00-\\x1f\\x7f]{1,200}$" hint:"1 to 200 characters on one line" doc:"What people call it. The id if left out."`
	Image       string           `yaml:"image" required:"true" pattern:"^[^\\s\\x00-\\x1f\\x7f]{1,512}$" hint:"an image reference without spaces" doc:"The image that containers are made of."`
	Command     argv             `yaml:"command" doc:"The main process, one argument an element. The image's own if left out."`
	Environment environment      `yaml:"environment" doc:"Added to the image's environment: a mapping, or a list of NAME=value."`
	User        userSpec         `yaml:"user" doc:"Who the main process and the hooks run as: a uid, uid:gid, name or name:group. The image's own if left out. 64997 is Hostler's own."`
	ReadOnly    bool             `yaml:"read_only" default:"false" doc:"Makes the root filesystem read-only. Only volumes and temporary filesystems can be written then, and a container can nearly always be wiped for another tenant."`
	StopSignal  string           `yaml:"stop_signal" doc:"The signal that asks the main process to end when the container is destroyed, such as SIGUSR1. The image's own if left out, else SIGTERM."`
	StopGrace   *duration        `yaml:"stop_grace_period" max:"10m" doc:"How long the main process may then take to end before it is killed. 10s if left out; 0s kills it at once. Where it is given and not 0s, no attempt of a pre_destroy hook takes longer either."`
	Runtime     string           `yaml:"runtime" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$" hint:"a runtime's name" doc:"The engine's runtime that containers run under, such as runsc; on Kubernetes a RuntimeClass. The engine's default if left out."`
	SecurityOpt []string         `yaml:"security_opt" pattern:"^((seccomp|apparmor)[=:][A-Za-z0-9][A-Za-z0-9_.-]{0,126}|no-new-privileges([=:]true)?)$" hint:"seccomp=NAME, apparmor=NAME or no-new-privileges:true" unique:"true" doc:"Profiles by name, in place of the engine's own. no-new-privileges always holds."`
	UsernsMode  string           `yaml:"userns_mode" enum:"private,host" doc:"private: users of the container are nobody on the machine; host: as the engine does it by itself."`
	NetworkMode string           `yaml:"network_mode" pattern:"^none$" hint:"none, or leave it out and list the networks to join under networks" doc:"none: the container has no network at all."`
	Ports       []int            `yaml:"ports" min:"1" max:"65535" unique:"true" doc:"TCP ports of the container that a claim's endpoint lists."`
	Networks    []string         `yaml:"networks" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$" hint:"a network's name" unique:"true" doc:"Networks of the engine that it joins. Hostler's own if left out."`
	DNS         []string         `yaml:"dns" pattern:"^[0-9A-Fa-f:.]{2,45}$" hint:"an IP address" unique:"true" doc:"Addresses of its resolvers. The engine's if left out."`
	Healthcheck *healthcheckFile `yaml:"healthcheck" doc:"How to tell that the container is ready. Without one, a container that runs is ready."`
	Deploy      deployFile       `yaml:"deploy" doc:"What the container may use."`
	Volumes     volumesFile      `yaml:"volumes" doc:"Private folders of each container. They outlive a restart, and are emptied before another tenant comes."`
	Pool        poolFile         `yaml:"pool" doc:"How many containers wait, and what becomes of used ones."`
	Restart     string           `yaml:"restart" default:"on_change" enum:"on_change,always,never" doc:"When a claim restarts the main process: when files were put in or wiped, always, or only where a wipe has ended it."`
	Sync        *syncFile        `yaml:"sync" doc:"Where a tenant's state is kept between claims. Without it nothing is kept."`
	Hooks       hooksFile        `yaml:"hooks" doc:"Commands that run inside the container at points of its life."`
}

type healthcheckFile struct {
	Test        healthTest `yaml:"test" required:"true" doc:"A command that exits with 0 when the container is ready: [CMD, program, argument…], [CMD-SHELL, line], [NONE], or a line for /bin/sh."`
	Interval    duration   `yaml:"interval" default:"30s" min:"1ms" max:"24h" doc:"The time between two checks of a container that waits."`
	Timeout     duration   `yaml:"timeout" default:"5s" min:"1ms" max:"10m" doc:"How long one check may take."`
	Retries     int        `yaml:"retries" default:"3" min:"1" max:"100" doc:"How many checks must fail in a row before the container is unhealthy."`
	StartPeriod duration   `yaml:"start_period" default:"15s" max:"24h" doc:"How long after its start failed checks do not count."`
}

type deployFile struct {
	Resources resourcesFile `yaml:"resources" doc:"Resources of each container."`
}

type resourcesFile struct {
	Limits limitsFile `yaml:"limits" doc:"The most that each container may use."`
}

type limitsFile struct {
	CPUs   cores `yaml:"cpus" default:"1" min:"0.01" max:"1024" doc:"Processor cores, such as 0.5 or \"2\"."`
	Memory size  `yaml:"memory" default:"512m" min:"6m" max:"16t" doc:"Memory, such as 512m or 1g."`
	PIDs   int   `yaml:"pids" default:"512" min:"1" max:"4194304" doc:"Processes and threads."`
}

type volumesFile struct {
	State   *volumeFile        `yaml:"state" doc:"The tenant's data. What sync keeps if it names no mappings."`
	Secrets *secretsFile       `yaml:"secrets" doc:"Files that the processes may only read, unless read_only is false."`
	Comm    *volumeFile        `yaml:"comm" doc:"Sockets and files that processes exchange."`
	Custom  []customVolumeFile `yaml:"custom" doc:"Any others."`
}

type volumeFile struct {
	Target   string `yaml:"target" required:"true" pattern:"^/" hint:"an absolute path" doc:"Where it is in the container."`
	ReadOnly bool   `yaml:"read_only" default:"false" doc:"Whether processes of the container may only read it."`
	Seed     string `yaml:"seed" doc:"A folder beside the workload file. The volume begins with its content, for each tenant anew."`
}

type secretsFile struct {
	Target   string `yaml:"target" required:"true" pattern:"^/" hint:"an absolute path" doc:"Where it is in the container."`
	ReadOnly bool   `yaml:"read_only" default:"true" doc:"Whether processes of the container may only read it."`
	Seed     string `yaml:"seed" doc:"A folder beside the workload file. The volume begins with its content, for each tenant anew."`
}

type customVolumeFile struct {
	Name     string `yaml:"name" required:"true" pattern:"^[a-z0-9][a-z0-9_.-]{0,62}$" hint:"lower-case letters, digits, dots, dashes and underscores" doc:"Unique within the workload; not state, secrets or comm."`
	Target   string `yaml:"target" required:"true" pattern:"^/" hint:"an absolute path" doc:"Where it is in the container."`
	ReadOnly bool   `yaml:"read_only" default:"false" doc:"Whether processes of the container may only read it."`
	Seed     string `yaml:"seed" doc:"A folder beside the workload file. The volume begins with its content, for each tenant anew."`
}

type poolFile struct {
	MinIdle          int      `yaml:"min_idle" default:"1" min:"0" max:"100000" doc:"How many containers wait to be claimed."`
	MaxSize          int      `yaml:"max_size" default:"10" min:"1" max:"100000" doc:"How many containers there may be at once, claimed ones too."`
	IdleTimeout      duration `yaml:"idle_timeout" default:"0" doc:"How long a container above min_idle waits before it is destroyed; 0 is for ever."`
	ClaimIdleTTL     duration `yaml:"claim_idle_ttl" alias:"file_idle_ttl" default:"0" doc:"How long a claim may be idle before it is released: neither asked for again nor touched, and no file of its state changed; 0 is for ever."`
	ReleaseFailedTTL duration `yaml:"release_failed_ttl" default:"168h" doc:"How long a container is kept whose tenant's state cannot be taken for a reason of the tenant's own making; then what has changed since the last snapshot is lost. 0 is for ever."`
	Reuse            string   `yaml:"reuse" default:"same_tenant" enum:"never,same_tenant,wipe" doc:"Who may have a container that a tenant has given back: nobody, the same tenant only, or other tenants too after a wipe. What a wipe proves, and what it does not, is in SECURITY.md."`
}

type syncFile struct {
	Sink     sinkFile      `yaml:"sink" required:"true" doc:"The place for tenants' state."`
	Mappings []mappingFile `yaml:"mappings" items:"1" doc:"What is kept. The state volume if left out."`
	Policy   policyFile    `yaml:"policy" doc:"When it is moved."`
	Keep     int           `yaml:"keep" default:"3" min:"1" max:"100" doc:"How many snapshots of each tenant are kept, the current one too."`
	MaxSize  size          `yaml:"max_size" default:"10g" min:"1k" max:"1t" doc:"The most that a tenant's state may take, unpacked. A larger one is not uploaded."`
	MaxFiles int           `yaml:"max_files" default:"1000000" min:"1" max:"10000000" doc:"How many files, folders and links a tenant's state may hold at most."`
}

type s3SinkFile struct {
	Type        string           `yaml:"type" required:"true" enum:"s3" doc:"A bucket of S3, or of a service that speaks its protocol."`
	Bucket      string           `yaml:"bucket" required:"true" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$" hint:"a bucket's name" doc:"The bucket. It must exist."`
	Region      string           `yaml:"region" pattern:"^[A-Za-z0-9-]{1,64}$" hint:"a region's name" doc:"Its region."`
	Endpoint    string           `yaml:"endpoint" pattern:"^https?://[^\\s@]+$" hint:"an http:// or https:// address without a password" doc:"The service's address, where it is not Amazon's."`
	Prefix      prefixTemplate   `yaml:"prefix" default:"tenants/${tenantId}/" doc:"Where in the bucket a tenant's objects are. ${tenantId} stands for the tenant and must be in it."`
	Credentials *credentialsFile `yaml:"credentials" doc:"Where its keys are. Amazon's standard chain if left out."`
}

type gcsSinkFile struct {
	Type        string           `yaml:"type" required:"true" enum:"gcs" doc:"A bucket of Google Cloud Storage."`
	Bucket      string           `yaml:"bucket" required:"true" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$" hint:"a bucket's name" doc:"The bucket. It must exist."`
	Prefix      prefixTemplate   `yaml:"prefix" default:"tenants/${tenantId}/" doc:"Where in the bucket a tenant's objects are. ${tenantId} stands for the tenant and must be in it."`
	Credentials *credentialsFile `yaml:"credentials" doc:"Where its key is, as JSON. Google's application default credentials if left out."`
}

type azureSinkFile struct {
	Type        string           `yaml:"type" required:"true" enum:"azure" doc:"A container of Azure Blob Storage."`
	Account     string           `yaml:"account" required:"true" pattern:"^[a-z0-9]{3,24}$" hint:"a storage account's name" doc:"The storage account."`
	Container   string           `yaml:"container" required:"true" pattern:"^[a-z0-9][a-z0-9-]{2,62}$" hint:"a container's name" doc:"The container. It must exist."`
	Endpoint    string           `yaml:"endpoint" pattern:"^https?://[^\\s@?]+$" hint:"an http:// or https:// address without a password" doc:"The account's address, where it is not the usual one."`
	Prefix      prefixTemplate   `yaml:"prefix" default:"tenants/${tenantId}/" doc:"Where in the container a tenant's objects are. ${tenantId} stands for the tenant and must be in it."`
	Credentials *credentialsFile `yaml:"credentials" doc:"Where its connection string is. Azure's default credential if left out."`
}

type dirSinkFile struct {
	Type   string         `yaml:"type" required:"true" enum:"file" doc:"A folder of the machine that the server runs on."`
	Path   string         `yaml:"path" pattern:"^/" hint:"an absolute path" doc:"The folder. It must be one that the server's operator allows. The server's own if left out."`
	Prefix prefixTemplate `yaml:"prefix" default:"tenants/${tenantId}/" doc:"Where in the folder a tenant's files are. ${tenantId} stands for the tenant and must be in it."`
}

type credentialsFile struct {
	File string `yaml:"file" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$" hint:"a name in the server's folder of credentials, without a / in front" doc:"A file in the server's folder of credentials."`
	Env  string `yaml:"env" pattern:"^HOSTLER_SINK_[A-Z0-9_]+$" hint:"a variable that begins with HOSTLER_SINK_" doc:"A variable of the server's environment that holds what the file would hold."`
}

type mappingFile struct {
	Path      string `yaml:"path" required:"true" pattern:"^.+$" hint:"a path" doc:"A folder of the container. A relative path is below the state volume, and / is the state volume itself."`
	Pattern   string `yaml:"pattern" default:"**" pattern:"^.+$" hint:"a glob" doc:"Which files below path, as a glob; ** stands for any folders."`
	SinkPath  string `yaml:"sink_path" doc:"Its name below the sink's prefix. If left out: the path below the state volume, or the path in the container."`
	Direction string `yaml:"direction" default:"bidirectional" enum:"bidirectional,upload,download" doc:"Which way it goes: kept at releases and put back at claims; kept only; or files that somebody else has put below sink_path, put in at claims and never kept."`
	Mode      string `yaml:"mode" default:"sync" enum:"sync,copy" doc:"sync: what is gone from the container is gone from the next snapshot; copy: a snapshot only adds and replaces."`
}

type policyFile struct {
	OnClaim   bool     `yaml:"on_claim" default:"true" doc:"Downloads at a claim."`
	OnRelease bool     `yaml:"on_release" default:"true" doc:"Uploads at a release."`
	Interval  duration `yaml:"interval" default:"0" doc:"Uploads this often while claimed, at least 1s apart; 0 is not at all."`
	Manual    bool     `yaml:"manual" default:"true" doc:"Allows uploads on request."`
}

type hookFile struct {
	Name        string      `yaml:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" hint:"letters, digits, dots, dashes and underscores, at most 63" doc:"Unique within its point. The point and the place, such as post_claim[0], if left out."`
	Command     argv        `yaml:"command" required:"true" doc:"What runs, one argument an element. No shell is added."`
	Timeout     duration    `yaml:"timeout" default:"30s" min:"1ms" max:"10m" doc:"How long one attempt may take. Then it is ended, with everything it started."`
	OnError     string      `yaml:"on_error" default:"fail" enum:"fail,continue,retry" doc:"What a failed attempt means: the point fails, the next hook runs, or it is tried again and then fails."`
	Idempotent  bool        `yaml:"idempotent" doc:"That it may be run again when a server was killed while it ran and nobody can say how it ended. Otherwise it has failed then."`
	Retries     *int        `yaml:"retries" min:"1" max:"5" doc:"How often a failed attempt is tried again, after 1 s, 2 s, 4 s and so on. 1 if left out; only with on_error: retry."`
	User        userSpec    `yaml:"user" doc:"Who it runs as. The container's own user if left out."`
	Workdir     string      `yaml:"workdir" pattern:"^/" hint:"an absolute path" doc:"The folder it runs in. The container's own if left out."`
	Environment environment `yaml:"environment" doc:"Added to the container's environment: a mapping, or a list of NAME=value. Names that begin with HOSTLER_ are Hostler's."`
}

// unsupportedKeys says what to write instead of keys that compose, or the formats this
// one grew from, have and this one has not.
var unsupportedKeys = map[string]string{
	"security":                      "containers are always hardened: remove it",
	"config_schema":                 "remove it",
	"working_dir":                   "set it in the image, or give hooks a workdir",
	"entrypoint":                    "write command",
	"env_file":                      "write the values under environment",
	"mem_limit":                     "write deploy.resources.limits.memory",
	"cpus":                          "write deploy.resources.limits.cpus",
	"pids_limit":                    "write deploy.resources.limits.pids",
	"pool.min_size":                 "write min_idle",
	"pool.network":                  "write networks and dns at the top of the file",
	"pool.networks":                 "write networks at the top of the file",
	"pool.dns":                      "write dns at the top of the file",
	"healthcheck.disable":           "write test: [NONE], or leave out healthcheck",
	"deploy.resources.reservations": "only limits are enforced: remove it",
	"sync.sink.access_key_id":       "secrets do not belong into the file: write credentials",
	"sync.sink.secret_access_key":   "secrets do not belong into the file: write credentials",
	"sync.sink.rclone_flags":        "nothing here runs rclone: remove it",
}
