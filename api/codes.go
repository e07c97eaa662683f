package api

import "net/http"

// Code identifies a kind of error, for programs.
type Code string

// The codes.
const (
	InvalidRequest       Code = "invalid_request"
	InvalidWorkload      Code = "invalid_workload"
	Unauthorized         Code = "unauthorized"
	Forbidden            Code = "forbidden"
	NotFound             Code = "not_found"
	WorkloadNotFound     Code = "workload_not_found"
	ClaimNotFound        Code = "claim_not_found"
	ContainerNotFound    Code = "container_not_found"
	RunNotFound          Code = "run_not_found"
	SnapshotNotFound     Code = "snapshot_not_found"
	DeliveryNotFound     Code = "delivery_not_found"
	EventHookNotFound    Code = "event_hook_not_found"
	WaitNotFound         Code = "wait_not_found"
	EventRemoved         Code = "event_removed"
	MemoryNotFound       Code = "memory_not_found"
	KeyNotFound          Code = "key_not_found"
	BindingNotFound      Code = "binding_not_found"
	KeyExists            Code = "key_exists"
	FirstCredential      Code = "first_credential"
	CredentialInFile     Code = "credential_in_file"
	FileNotFound         Code = "file_not_found"
	CommandNotFound      Code = "command_not_found"
	CommandNotStarted    Code = "command_not_started"
	TooManyCommands      Code = "too_many_commands"
	AttachedElsewhere    Code = "attached_elsewhere"
	OutputLost           Code = "output_lost"
	DeniedByHook         Code = "denied_by_hook"
	NotSupported         Code = "not_supported"
	NotConfigured        Code = "not_configured"
	MethodNotAllowed     Code = "method_not_allowed"
	RequestTimeout       Code = "request_timeout"
	Conflict             Code = "conflict"
	ContainerInUse       Code = "container_in_use"
	ClaimAborted         Code = "claim_aborted"
	ClaimReleasing       Code = "claim_releasing"
	ClaimNotActive       Code = "claim_not_active"
	ClaimHeld            Code = "claim_exists"
	WaitExists           Code = "wait_exists"
	NoSync               Code = "sync_not_configured"
	MemoryNotShared      Code = "memory_not_shared"
	MemoryFull           Code = "memory_full"
	VersionConflict      Code = "version_conflict"
	FileDenied           Code = "file_denied"
	PathOutside          Code = "path_outside"
	NotAFile             Code = "not_a_file"
	NotDirectory         Code = "not_directory"
	NotEmpty             Code = "not_empty"
	FileChanged          Code = "file_changed"
	ReadOnly             Code = "read_only"
	RangeNotSatisfiable  Code = "range_not_satisfiable"
	TooManyRequests      Code = "too_many_requests"
	FileFailed           Code = "file_failed"
	NoSpace              Code = "no_space"
	NoPortDomain         Code = "no_port_domain"
	RateLimited          Code = "rate_limited"
	QuotaExceeded        Code = "quota_exceeded"
	QuotaNotFound        Code = "quota_not_found"
	PayloadTooLarge      Code = "payload_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	PoolExhausted        Code = "pool_exhausted"
	TooManyWaits         Code = "too_many_waits"
	TooManyConnections   Code = "too_many_connections"
	PortRefused          Code = "port_refused"
	PortFailed           Code = "port_failed"
	Internal             Code = "internal"
	HookFailed           Code = "hook_failed"
	StartFailed          Code = "start_failed"
	Unhealthy            Code = "unhealthy"
	ImageUnavailable     Code = "image_unavailable"
	SyncFailed           Code = "sync_failed"
	EngineUnavailable    Code = "engine_unavailable"
	WrongVersion         Code = "wrong_version"
	StorageUnavailable   Code = "storage_unavailable"
	PoolNotReady         Code = "pool_not_ready"
	NotReady             Code = "not_ready"
	Timeout              Code = "timeout"
)

// temporaryCodes are the codes of errors that end by themselves: what follows something
// through lost connections makes such a request again. All other codes are final. The
// OpenAPI document has the list for clients.
var temporaryCodes = []Code{EngineUnavailable, NotReady, StorageUnavailable, Timeout, WrongVersion}

// statuses are the HTTP status and the title of each code.
var statuses = map[Code]struct {
	status int
	title  string
}{
	InvalidRequest:       {http.StatusUnprocessableEntity, "The request is invalid"},
	InvalidWorkload:      {http.StatusUnprocessableEntity, "The workload file is invalid"},
	Unauthorized:         {http.StatusUnauthorized, "A valid API key is required"},
	Forbidden:            {http.StatusForbidden, "The request is refused"},
	NotFound:             {http.StatusNotFound, "Path not found"},
	WorkloadNotFound:     {http.StatusNotFound, "Workload not found"},
	ClaimNotFound:        {http.StatusNotFound, "Claim not found"},
	ContainerNotFound:    {http.StatusNotFound, "Container not found"},
	RunNotFound:          {http.StatusNotFound, "Hook run not found"},
	SnapshotNotFound:     {http.StatusNotFound, "Snapshot not found"},
	DeliveryNotFound:     {http.StatusNotFound, "Delivery not found"},
	EventHookNotFound:    {http.StatusNotFound, "Event hook not found"},
	WaitNotFound:         {http.StatusNotFound, "Wait not found"},
	EventRemoved:         {http.StatusConflict, "The log no longer has the event"},
	MemoryNotFound:       {http.StatusNotFound, "No value under this key"},
	KeyNotFound:          {http.StatusNotFound, "Key not found"},
	BindingNotFound:      {http.StatusNotFound, "Binding not found"},
	KeyExists:            {http.StatusConflict, "Another key has the name"},
	FirstCredential:      {http.StatusConflict, "The first credential must be an operator's"},
	CredentialInFile:     {http.StatusConflict, "A file has the credential"},
	FileNotFound:         {http.StatusNotFound, "No such file in the container"},
	CommandNotFound:      {http.StatusNotFound, "Command not found"},
	CommandNotStarted:    {http.StatusUnprocessableEntity, "The command did not start"},
	TooManyCommands:      {http.StatusTooManyRequests, "Too many commands run in the container"},
	AttachedElsewhere:    {http.StatusConflict, "Another client has attached to the command"},
	OutputLost:           {http.StatusGone, "The output is not kept any more"},
	DeniedByHook:         {http.StatusForbidden, "A hook has refused it"},
	NotConfigured:        {http.StatusConflict, "The server has no key for secret parameters"},
	NotSupported:         {http.StatusConflict, "The container does not support it"},
	MethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed"},
	RequestTimeout:       {http.StatusRequestTimeout, "The request was received too slowly"},
	Conflict:             {http.StatusConflict, "The state changed concurrently"},
	ContainerInUse:       {http.StatusConflict, "A claim holds the container"},
	ClaimAborted:         {http.StatusConflict, "The claim was released before it was active"},
	ClaimReleasing:       {http.StatusConflict, "The tenant's last claim is still being released"},
	ClaimNotActive:       {http.StatusConflict, "The claim is not active"},
	ClaimHeld:            {http.StatusConflict, "The tenant holds a claim"},
	WaitExists:           {http.StatusConflict, "A wait of the name is open"},
	NoSync:               {http.StatusConflict, "The workload is not configured for this kind of state sync"},
	MemoryNotShared:      {http.StatusConflict, "The workload's memory is not shared"},
	MemoryFull:           {http.StatusConflict, "The memory is full"},
	VersionConflict:      {http.StatusPreconditionFailed, "The value has another version"},
	FileDenied:           {http.StatusForbidden, "The container's user may not do this with the file"},
	PathOutside:          {http.StatusForbidden, "The path leads out of the permitted directories"},
	NotAFile:             {http.StatusConflict, "It is not a regular file"},
	NotDirectory:         {http.StatusConflict, "It is not a directory"},
	NotEmpty:             {http.StatusConflict, "The directory is not empty"},
	FileChanged:          {http.StatusConflict, "The file changed during the request"},
	ReadOnly:             {http.StatusConflict, "The filesystem is read-only"},
	RangeNotSatisfiable:  {http.StatusRequestedRangeNotSatisfiable, "The file ends before the range"},
	TooManyRequests:      {http.StatusTooManyRequests, "Too many requests at once"},
	FileFailed:           {http.StatusBadGateway, "The container could not do it with the file"},
	NoSpace:              {http.StatusInsufficientStorage, "No space is left in the container"},
	NoPortDomain:         {http.StatusConflict, "The server has no domain for ports"},
	RateLimited:          {http.StatusTooManyRequests, "Too many requests"},
	QuotaExceeded:        {http.StatusTooManyRequests, "A quota is exceeded"},
	QuotaNotFound:        {http.StatusNotFound, "There is no quota of its own"},
	PayloadTooLarge:      {http.StatusRequestEntityTooLarge, "The body is too large"},
	UnsupportedMediaType: {http.StatusUnsupportedMediaType, "The body's content type is not supported"},
	PoolExhausted:        {http.StatusTooManyRequests, "All containers of the pool are in use"},
	TooManyWaits:         {http.StatusTooManyRequests, "The claim has too many waits or signals"},
	TooManyConnections:   {http.StatusTooManyRequests, "Too many connections to ports are open"},
	PortRefused:          {http.StatusBadGateway, "Nothing listens on the port"},
	PortFailed:           {http.StatusBadGateway, "The program on the port did not answer"},
	Internal:             {http.StatusInternalServerError, "Internal server error"},
	HookFailed:           {http.StatusBadGateway, "A hook failed"},
	StartFailed:          {http.StatusBadGateway, "The container did not start"},
	Unhealthy:            {http.StatusBadGateway, "The container is not healthy"},
	ImageUnavailable:     {http.StatusBadGateway, "The image is not available"},
	SyncFailed:           {http.StatusBadGateway, "The tenant's state could not be transferred"},
	EngineUnavailable:    {http.StatusServiceUnavailable, "The container engine is unavailable"},
	WrongVersion:         {http.StatusServiceUnavailable, "The container was created by another version of the server"},
	StorageUnavailable:   {http.StatusServiceUnavailable, "The database is unavailable"},
	PoolNotReady:         {http.StatusServiceUnavailable, "No container of the pool is ready"},
	NotReady:             {http.StatusServiceUnavailable, "The server is not ready"},
	Timeout:              {http.StatusGatewayTimeout, "The request timed out"},
}
