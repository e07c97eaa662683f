package workload

// The types of this file describe the workload file field by field. Their tags
// define the format: the decoder, Schema and the tables of docs/workload-file.md
// are derived from them.
//
//	yaml      the key
//	alias     another name of the key, for older files
//	doc       the description
//	required  the key must be given
//	default   the value if the key is omitted
//	enum      the allowed values, separated by commas
//	pattern   of a text, or of each text in a list; hint describes it in words
//	min, max  of a number, a size or a duration
//	items     the min number of elements of a list
//	unique    elements must be unique

type file struct {
	ID          string           `yaml:"id" required:"true" pattern:"^[a-z][a-z0-9-]{0,62}$" hint:"lower-case letters, digits and dashes, beginning with a letter, at most 63" doc:"Names the workload in the API, on the command line and in events."`
	Name        string           `yaml:"name" pattern:"^[^\\x00-\\x1f\\x7f]{1,200}$" hint:"1 to 200 characters on one line" doc:"A display name. Default: the id."`
	Image       string           `yaml:"image" required:"true" pattern:"^[^\\s\\x00-\\x1f\\x7f]{1,512}$" hint:"an image reference without spaces" doc:"The image of the containers."`
	Command     argv             `yaml:"command" doc:"The main process, one argument per element. Default: the image's."`
	Environment environment      `yaml:"environment" alias:"env" doc:"Added to the image's environment: a mapping, or a list of NAME=value."`
	User        userSpec         `yaml:"user" doc:"The user of the main process and the hooks: a uid, uid:gid, name or name:group. Default: the image's. 64997 is reserved for Hostler."`
	ReadOnly    bool             `yaml:"read_only" default:"false" doc:"Makes the root filesystem read-only. Only volumes and temporary filesystems are then writable, and a container can nearly always be wiped for another tenant."`
	StopSignal  string           `yaml:"stop_signal" doc:"The signal that stops the main process when the container is destroyed, such as SIGUSR1. Default: the image's, else SIGTERM."`
	StopGrace   *duration        `yaml:"stop_grace_period" max:"10m" doc:"How long the main process may then take to exit before it is killed. Default: 10s; 0s kills it immediately. If it is given and not 0s, it also limits each attempt of a pre_destroy hook."`
	Runtime     string           `yaml:"runtime" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$" hint:"a runtime's name" doc:"The engine's runtime for the containers, such as runsc; on Kubernetes a RuntimeClass. Default: the engine's."`
	SecurityOpt []string         `yaml:"security_opt" pattern:"^((seccomp|apparmor)[=:][A-Za-z0-9][A-Za-z0-9_.-]{0,126}|no-new-privileges([=:]true)?)$" hint:"seccomp=NAME, apparmor=NAME or no-new-privileges:true" unique:"true" doc:"Profiles by name, instead of the engine's default. no-new-privileges is always set."`
	UsernsMode  string           `yaml:"userns_mode" enum:"private,host" doc:"private: users of the container are unprivileged on the machine; host: the engine's default."`
	NetworkMode string           `yaml:"network_mode" pattern:"^none$" hint:"none, or omit it and list the networks to join under networks" doc:"none: the container has no network at all."`
	Ports       []int            `yaml:"ports" min:"1" max:"65535" unique:"true" doc:"TCP ports of the container that a claim's endpoint lists."`
	Networks    []string         `yaml:"networks" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$" hint:"a network's name" unique:"true" doc:"Networks of the engine that the container joins. Default: Hostler's own."`
	DNS         []string         `yaml:"dns" pattern:"^[0-9A-Fa-f:.]{2,45}$" hint:"an IP address" unique:"true" doc:"Addresses of DNS resolvers. Default: the engine's."`
	Healthcheck *healthcheckFile `yaml:"healthcheck" doc:"How to check that the container is ready. Without it, a running container is ready."`
	Deploy      deployFile       `yaml:"deploy" doc:"Resources of the container."`
	Volumes     volumesFile      `yaml:"volumes" doc:"Private directories of each container. They outlive a restart and are emptied before another tenant gets the container."`
	Pool        poolFile         `yaml:"pool" doc:"The number of containers, and how they are reused."`
	Restart     string           `yaml:"restart" default:"on_change" enum:"on_change,always,never" doc:"When a claim restarts the main process: if files were written or wiped, always, or only if it was ended to replace files."`
	Sync        *syncFile        `yaml:"sync" doc:"How a tenant's state is kept between claims. Without it, no state is kept."`
	Memory      memoryFile       `yaml:"memory" doc:"JSON values that hooks, tenants' programs and the API keep under keys."`
	Workspace   string           `yaml:"workspace" pattern:"^/" hint:"an absolute path" doc:"The directory that scripts of hooks start in, and that guard_paths allows. Default: the target of the state volume, else the container's working directory."`
	Secrets     secretMap        `yaml:"secrets" doc:"Secrets of the server that requests of hooks may use, by name: where each is."`
	Parameters  parameterMap     `yaml:"parameters" doc:"Texts that a claim gives to the hooks of its points, by name."`
	Hooks       hooksFile        `yaml:"hooks" alias:"lifecycle_hooks" doc:"Actions at points of the lifecycle of a container or a claim, for events, and at gates."`
	Secure      bool             `yaml:"secure" default:"false" doc:"Guard tenants against accidents: guard_destructive at exec.before and guard_paths at file.before, unless hooks names the gate."`
	HooksFrom   string           `yaml:"hooks_from" pattern:"^[a-z][a-z0-9-]{0,62}$" hint:"the id of a workload" doc:"A workload whose hooks are copied when this file is applied. A hook of this file replaces that of the same name; an empty list removes those of a point."`
	ImageHooks  bool             `yaml:"image_hooks" default:"false" doc:"Run the executables /etc/hostler/hooks/POINT and /etc/hostler/hooks/POINT.d/* of the image before the hooks of a point, in order of their names."`
	Harness     string           `yaml:"harness" doc:"Of other formats: it has no effect."`
	HarnessConf string           `yaml:"default_harness_config" doc:"Of other formats: it has no effect."`
}

type healthcheckFile struct {
	Test        healthTest `yaml:"test" required:"true" doc:"A command that exits with 0 when the container is ready: [CMD, program, argument…], [CMD-SHELL, line], [NONE], or a line for /bin/sh."`
	Interval    duration   `yaml:"interval" default:"30s" min:"1ms" max:"24h" doc:"The time between two checks of a container."`
	Timeout     duration   `yaml:"timeout" default:"5s" min:"1ms" max:"10m" doc:"How long one check may take."`
	Retries     int        `yaml:"retries" default:"3" min:"1" max:"100" doc:"The number of consecutive failures until the container is unhealthy."`
	StartPeriod duration   `yaml:"start_period" default:"15s" max:"24h" doc:"How long after the start failed checks do not count."`
}

type deployFile struct {
	Resources resourcesFile `yaml:"resources" doc:"Resources of each container."`
}

type resourcesFile struct {
	Limits limitsFile `yaml:"limits" doc:"Limits of each container."`
}

type limitsFile struct {
	CPUs   cores `yaml:"cpus" default:"1" min:"0.01" max:"1024" doc:"Processor cores, such as 0.5 or \"2\"."`
	Memory size  `yaml:"memory" default:"512m" min:"6m" max:"16t" doc:"Memory, such as 512m or 1g."`
	PIDs   int   `yaml:"pids" default:"512" min:"1" max:"4194304" doc:"Processes and threads."`
}

type volumesFile struct {
	State   *volumeFile        `yaml:"state" doc:"The tenant's data. sync keeps it if there are no mappings."`
	Secrets *secretsFile       `yaml:"secrets" doc:"Files that are read-only for the processes, unless read_only is false."`
	Comm    *volumeFile        `yaml:"comm" doc:"Sockets and files that the processes share."`
	Custom  []customVolumeFile `yaml:"custom" doc:"Other volumes."`
}

type volumeFile struct {
	Target   string `yaml:"target" required:"true" pattern:"^/" hint:"an absolute path" doc:"The path in the container."`
	ReadOnly bool   `yaml:"read_only" default:"false" doc:"Makes the volume read-only for the processes of the container."`
	Seed     string `yaml:"seed" doc:"A directory next to the workload file. The volume has its content initially, for every tenant."`
}

type secretsFile struct {
	Target   string `yaml:"target" required:"true" pattern:"^/" hint:"an absolute path" doc:"The path in the container."`
	ReadOnly bool   `yaml:"read_only" default:"true" doc:"Makes the volume read-only for the processes of the container."`
	Seed     string `yaml:"seed" doc:"A directory next to the workload file. The volume has its content initially, for every tenant."`
}

type customVolumeFile struct {
	Name     string `yaml:"name" required:"true" pattern:"^[a-z0-9][a-z0-9_.-]{0,62}$" hint:"lower-case letters, digits, dots, dashes and underscores" doc:"Unique within the workload; not state, secrets or comm."`
	Target   string `yaml:"target" required:"true" pattern:"^/" hint:"an absolute path" doc:"The path in the container."`
	ReadOnly bool   `yaml:"read_only" default:"false" doc:"Makes the volume read-only for the processes of the container."`
	Seed     string `yaml:"seed" doc:"A directory next to the workload file. The volume has its content initially, for every tenant."`
}

type poolFile struct {
	MinIdle          int      `yaml:"min_idle" default:"1" min:"0" max:"100000" doc:"The number of idle containers to keep."`
	MaxSize          int      `yaml:"max_size" default:"10" min:"1" max:"100000" doc:"The max number of containers, including claimed ones."`
	IdleTimeout      duration `yaml:"idle_timeout" default:"0" doc:"How long a container above min_idle is idle before it is destroyed; 0: indefinitely."`
	ClaimIdleTTL     duration `yaml:"claim_idle_ttl" alias:"file_idle_ttl" default:"0" doc:"How long a claim may be idle before it is released: neither requested again nor touched, nor reported as working by its program, and no file of its state changed; 0: indefinitely."`
	ReleaseFailedTTL duration `yaml:"release_failed_ttl" default:"168h" doc:"How long a container is kept if its state cannot be uploaded because of the tenant. After that, changes since the last snapshot are lost. 0: indefinitely."`
	Reuse            string   `yaml:"reuse" default:"same_tenant" enum:"never,same_tenant,wipe" doc:"Which tenants may get a released container: none, the same tenant only, or, after a wipe, also others. SECURITY.md describes what a wipe guarantees."`
}

type memoryFile struct {
	Shared bool `yaml:"shared" default:"false" doc:"Tenants share the values of the level workload: each can read and change them. Without it, the level cannot be used. It can be changed at any time and replaces no container; values that are no longer shared are removed after 24 hours."`
}

type syncFile struct {
	Sink     sinkFile      `yaml:"sink" required:"true" doc:"The storage for tenants' state."`
	Mappings []mappingFile `yaml:"mappings" items:"1" doc:"The directories to keep. Default: the state volume."`
	Policy   policyFile    `yaml:"policy" doc:"When state is transferred."`
	Keep     int           `yaml:"keep" default:"3" min:"1" max:"100" doc:"The number of snapshots to keep per tenant, including the current one."`
	MaxSize  size          `yaml:"max_size" default:"10g" min:"1k" max:"1t" doc:"The max size of a tenant's state, unpacked. Larger state is not uploaded."`
	MaxFiles int           `yaml:"max_files" default:"1000000" min:"1" max:"10000000" doc:"The max number of files, directories and links in a tenant's state."`
}

type s3SinkFile struct {
	Type        string           `yaml:"type" required:"true" enum:"s3" doc:"A bucket of S3, or of a compatible service."`
	Bucket      string           `yaml:"bucket" required:"true" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$" hint:"a bucket's name" doc:"The bucket. It must exist."`
	Region      string           `yaml:"region" pattern:"^[A-Za-z0-9-]{1,64}$" hint:"a region's name" doc:"The region."`
	Endpoint    string           `yaml:"endpoint" pattern:"^https?://[^\\s@]+$" hint:"an http:// or https:// address without a password" doc:"The address of the service, if it is not Amazon's."`
	Prefix      prefixTemplate   `yaml:"prefix" default:"tenants/${tenantId}/" doc:"The prefix of a tenant's objects. It must contain ${tenantId}, which is replaced by the tenant."`
	Credentials *credentialsFile `yaml:"credentials" doc:"The location of the keys. Default: Amazon's credential chain."`
}

type gcsSinkFile struct {
	Type        string           `yaml:"type" required:"true" enum:"gcs" doc:"A bucket of Google Cloud Storage."`
	Bucket      string           `yaml:"bucket" required:"true" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$" hint:"a bucket's name" doc:"The bucket. It must exist."`
	Prefix      prefixTemplate   `yaml:"prefix" default:"tenants/${tenantId}/" doc:"The prefix of a tenant's objects. It must contain ${tenantId}, which is replaced by the tenant."`
	Credentials *credentialsFile `yaml:"credentials" doc:"The location of the key, as JSON. Default: Google's application default credentials."`
}

type azureSinkFile struct {
	Type        string           `yaml:"type" required:"true" enum:"azure" doc:"A container of Azure Blob Storage."`
	Account     string           `yaml:"account" required:"true" pattern:"^[a-z0-9]{3,24}$" hint:"a storage account's name" doc:"The storage account."`
	Container   string           `yaml:"container" required:"true" pattern:"^[a-z0-9][a-z0-9-]{2,62}$" hint:"a container's name" doc:"The container. It must exist."`
	Endpoint    string           `yaml:"endpoint" pattern:"^https?://[^\\s@?]+$" hint:"an http:// or https:// address without a password" doc:"The address of the account, if it is not the default."`
	Prefix      prefixTemplate   `yaml:"prefix" default:"tenants/${tenantId}/" doc:"The prefix of a tenant's objects. It must contain ${tenantId}, which is replaced by the tenant."`
	Credentials *credentialsFile `yaml:"credentials" doc:"The location of the connection string. Default: Azure's default credential."`
}

type dirSinkFile struct {
	Type   string         `yaml:"type" required:"true" enum:"file" doc:"A directory on the server's machine."`
	Path   string         `yaml:"path" pattern:"^/" hint:"an absolute path" doc:"The directory. The operator must allow it. Default: the server's own."`
	Prefix prefixTemplate `yaml:"prefix" default:"tenants/${tenantId}/" doc:"The directory of a tenant's files. It must contain ${tenantId}, which is replaced by the tenant."`
}

type credentialsFile struct {
	File string `yaml:"file" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$" hint:"a name in the server's credentials directory, without a leading /" doc:"A file in the server's credentials directory."`
	Env  string `yaml:"env" pattern:"^HOSTLER_SINK_[A-Z0-9_]+$" hint:"a variable that begins with HOSTLER_SINK_" doc:"A variable of the server's environment with the content of such a file."`
}

type mappingFile struct {
	Path      string `yaml:"path" required:"true" pattern:"^.+$" hint:"a path" doc:"A directory of the container. A relative path is below the state volume, and / is the state volume itself."`
	Pattern   string `yaml:"pattern" default:"**" pattern:"^.+$" hint:"a glob" doc:"A glob of the files below path; ** matches any directories."`
	SinkPath  string `yaml:"sink_path" doc:"The path below the sink's prefix. Default: the path below the state volume, or the path in the container."`
	Direction string `yaml:"direction" default:"bidirectional" enum:"bidirectional,upload,download" doc:"bidirectional: uploaded at releases and downloaded at claims; upload: uploaded only; download: files that another source has put below sink_path, downloaded at claims and never uploaded."`
	Mode      string `yaml:"mode" default:"sync" enum:"sync,copy" doc:"sync: files that were deleted in the container are not in the next snapshot; copy: a snapshot only adds and replaces files."`
}

type policyFile struct {
	OnClaim   bool     `yaml:"on_claim" default:"true" doc:"Download at a claim."`
	OnRelease bool     `yaml:"on_release" default:"true" doc:"Upload at a release."`
	Interval  duration `yaml:"interval" default:"0" doc:"The interval of uploads during a claim, at least 1s; 0: no uploads."`
	Manual    bool     `yaml:"manual" default:"true" doc:"Allow uploads on request."`
}

// unsupportedKeys has hints for keys of compose, and of the formats that this
// format is based on, that are not supported.
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
	"healthcheck.disable":           "write test: [NONE], or omit healthcheck",
	"deploy.resources.reservations": "only limits are enforced: remove it",
	"sync.sink.access_key_id":       "secrets do not belong in the file: write credentials",
	"sync.sink.secret_access_key":   "secrets do not belong in the file: write credentials",
	"sync.sink.rclone_flags":        "Hostler does not use rclone: remove it",
	"*.webhook.method":              "a webhook is always a POST: remove it, or write http",
	"*.webhook.auth":                "a webhook has no auth: write sign, or http with auth",
	"*.action.method":               "only http has a method: a webhook is always a POST",
	"*.action.auth":                 "only http has auth",
}
