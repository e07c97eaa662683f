package api

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// rule is who may use a route, and on what a request acts (see docs/access.md).
type rule struct {
	roles []auth.Role
	on    object
	// body is the limit of its body in bytes: 0 for defaultBody, or streamed.
	body int64
	form bodyForm // what its handler takes of it
}

const (
	// defaultBody is the limit of a body without another one in the rules.
	defaultBody = 64 << 10
	// streamed means that the handler reads a body of any size, and keeps none of it.
	streamed = -1
)

// object is what a request acts on, which decides whose it is.
type object int

const (
	// onServer is the server as a whole: for a role without limits.
	onServer object = iota
	// onPublic needs no credential.
	onPublic
	// onAny is for every principal, whatever its roles.
	onAny
	// onList is a list: it has what the principal may see (see scopeOf).
	onList
	// onNamed is what the parameters or the body name: the handler calls permit.
	onNamed
	// onClaim is the claim in the path, onWorkload the workload in {id}, onPool that in
	// {workload}, and so on.
	onClaim
	onWorkload
	onPool
	onContainer
	onRun
	onWait
	onDelivery
)

// Who may use routes. An operator may use all.
var (
	operators = []auth.Role{auth.Operator}
	tenants   = []auth.Role{auth.Tenant, auth.Operator}
	authors   = []auth.Role{auth.Author, auth.Operator}
	viewers   = []auth.Role{auth.Viewer, auth.Operator}
	monitors  = []auth.Role{auth.Metrics, auth.Viewer, auth.Operator}
	// readers read what is not for one tenant only, everyone also what is.
	readers  = []auth.Role{auth.Author, auth.Viewer, auth.Operator}
	everyone = []auth.Role{auth.Tenant, auth.Author, auth.Viewer, auth.Operator}
	// keepers read what tenants keep, by its names.
	keepers = []auth.Role{auth.Tenant, auth.Viewer, auth.Operator}
)

// rules are the rules of the operations. A route without a rule does not exist.
var rules = map[string]rule{
	"list-workloads":  {roles: readers, on: onList},
	"get-workload":    {roles: readers, on: onWorkload},
	"apply-workload":  {roles: authors, on: onWorkload, body: 1 << 20},
	"delete-workload": {roles: authors, on: onWorkload},
	"test-hooks":      {roles: authors, on: onWorkload},
	"replay-events":   {roles: authors, on: onWorkload},

	"list-pools": {roles: readers, on: onList},
	"get-pool":   {roles: readers, on: onPool},
	"scale-pool": {roles: authors, on: onPool},
	"drain-pool": {roles: authors, on: onPool},

	"list-containers":   {roles: readers, on: onList},
	"get-container":     {roles: readers, on: onContainer},
	"destroy-container": {roles: operators, on: onContainer},
	"container-logs":    {roles: authors, on: onContainer},

	"claim":        {roles: tenants, on: onNamed, body: 256 << 10},
	"list-claims":  {roles: everyone, on: onList},
	"get-claim":    {roles: everyone, on: onClaim},
	"touch":        {roles: tenants, on: onClaim},
	"extend":       {roles: tenants, on: onClaim},
	"set-activity": {roles: tenants, on: onClaim},
	"release":      {roles: tenants, on: onClaim},
	"test-claim":   {roles: authors, on: onClaim},
	"sync":         {roles: tenants, on: onClaim},

	"wait":       {roles: tenants, on: onClaim},
	"signal":     {roles: tenants, on: onClaim},
	"get-wait":   {roles: tenants, on: onWait},
	"list-waits": {roles: everyone, on: onList},

	"list-memory":   {roles: tenants, on: onClaim},
	"get-memory":    {roles: tenants, on: onClaim},
	"put-memory":    {roles: tenants, on: onClaim},
	"delete-memory": {roles: tenants, on: onClaim},

	"get-file":    {roles: tenants, on: onClaim},
	"put-file":    {roles: tenants, on: onClaim, body: streamed},
	"delete-file": {roles: tenants, on: onClaim},

	"exec":           {roles: tenants, on: onClaim, body: 1 << 20},
	"list-commands":  {roles: tenants, on: onClaim},
	"get-command":    {roles: tenants, on: onClaim},
	"end-command":    {roles: tenants, on: onClaim},
	"signal-command": {roles: tenants, on: onClaim},
	"resize-command": {roles: tenants, on: onClaim},
	"command-output": {roles: tenants, on: onClaim},
	"ack-command":    {roles: tenants, on: onClaim},
	"command-input":  {roles: tenants, on: onClaim, body: 1 << 20},
	"start-command":  {roles: tenants, on: onClaim},
	"attach-command": {roles: tenants, on: onClaim},

	"create-link":  {roles: tenants, on: onClaim},
	"connect-port": {roles: tenants, on: onClaim},
	"port-get":     {roles: tenants, on: onClaim},
	"port-head":    {roles: tenants, on: onClaim},
	"port-post":    {roles: tenants, on: onClaim},
	"port-put":     {roles: tenants, on: onClaim},
	"port-patch":   {roles: tenants, on: onClaim},
	"port-delete":  {roles: tenants, on: onClaim},
	"port-options": {roles: tenants, on: onClaim},

	"list-snapshots":   {roles: keepers, on: onNamed},
	"restore-snapshot": {roles: tenants, on: onNamed},
	"verify-snapshot":  {roles: tenants, on: onNamed},
	"export-snapshot":  {roles: tenants, on: onNamed},
	"import-snapshot":  {roles: tenants, on: onNamed, body: streamed},

	"list-runs": {roles: everyone, on: onList},
	"get-run":   {roles: everyone, on: onRun},

	"list-deliveries":  {roles: readers, on: onList},
	"get-delivery":     {roles: readers, on: onDelivery},
	"retry-delivery":   {roles: authors, on: onDelivery},
	"discard-delivery": {roles: authors, on: onDelivery},

	"events":        {roles: everyone, on: onList},
	"follow-events": {roles: everyone, on: onList},
	"publish-event": {roles: tenants, on: onNamed},

	"create-key": {roles: operators, on: onServer, body: 256 << 10},
	"list-keys":  {roles: operators, on: onServer},
	"get-key":    {roles: operators, on: onServer},
	"revoke-key": {roles: operators, on: onServer},

	"create-token": {roles: tenants, on: onNamed},

	"list-bindings":  {roles: operators, on: onServer},
	"get-binding":    {roles: operators, on: onServer},
	"put-binding":    {roles: operators, on: onServer, body: 256 << 10},
	"delete-binding": {roles: operators, on: onServer},

	"whoami": {on: onAny},
	"can-i":  {on: onAny},

	"list-quotas":  {roles: viewers, on: onList},
	"get-quota":    {roles: keepers, on: onNamed},
	"set-quota":    {roles: operators, on: onNamed},
	"delete-quota": {roles: operators, on: onNamed},

	"doctor":  {roles: viewers, on: onServer},
	"healthz": {on: onPublic},
	"readyz":  {on: onPublic},
	"metrics": {roles: monitors, on: onServer},
	"openapi": {on: onAny},
}

// permission is what the rule of its route permits a request.
type permission struct {
	roles []auth.Role
	scope *activity.Scope // on what the principal acts with these roles
}

type permissionKey struct{}

// scopeOf returns what a request may see. Without a permission that is nothing.
func scopeOf(ctx context.Context) *activity.Scope {
	if p, ok := ctx.Value(permissionKey{}).(permission); ok {
		return p.scope
	}
	return &activity.Scope{}
}

// authorize permits a request, or refuses it: with 403 if its principal has no role
// for the route, and as if there were no such thing if it is another tenant's.
func (a *API) authorize(r *http.Request, rule rule) (*http.Request, *Problem) {
	ctx := r.Context()
	if rule.on == onPublic || rule.on == onAny {
		return r, nil
	}
	p := auth.From(ctx)
	if !p.Has(rule.roles...) {
		return r, roleProblem(ctx, p, rule.roles)
	}
	r = r.WithContext(context.WithValue(ctx, permissionKey{}, permission{rule.roles, p.Scope(rule.roles)}))
	if scopeOf(r.Context()) == nil {
		return r, nil
	}
	check, ok := authorizers[rule.on]
	if !ok {
		return r, errOthers(ctx)
	}
	return r, check(a, r, rule.roles)
}

// roleProblem refuses a request whose principal has no role for it.
func roleProblem(ctx context.Context, p *auth.Principal, roles []auth.Role) *Problem {
	markDenied(ctx, deniedRole)
	return newProblem(ctx, Forbidden, "this needs the role "+auth.JoinRoles(roles)+"; the credential has "+auth.JoinRoles(p.Roles()))
}
