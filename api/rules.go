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
}

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
	"list-workloads":  {readers, onList},
	"get-workload":    {readers, onWorkload},
	"apply-workload":  {authors, onWorkload},
	"delete-workload": {authors, onWorkload},
	"test-hooks":      {authors, onWorkload},
	"replay-events":   {authors, onWorkload},

	"list-pools": {readers, onList},
	"get-pool":   {readers, onPool},
	"scale-pool": {authors, onPool},
	"drain-pool": {authors, onPool},

	"list-containers":   {readers, onList},
	"get-container":     {readers, onContainer},
	"destroy-container": {operators, onContainer},
	"container-logs":    {authors, onContainer},

	"claim":        {tenants, onNamed},
	"list-claims":  {everyone, onList},
	"get-claim":    {everyone, onClaim},
	"touch":        {tenants, onClaim},
	"extend":       {tenants, onClaim},
	"set-activity": {tenants, onClaim},
	"release":      {tenants, onClaim},
	"test-claim":   {authors, onClaim},
	"sync":         {tenants, onClaim},

	"wait":       {tenants, onClaim},
	"signal":     {tenants, onClaim},
	"get-wait":   {tenants, onWait},
	"list-waits": {everyone, onList},

	"list-memory":   {tenants, onClaim},
	"get-memory":    {tenants, onClaim},
	"put-memory":    {tenants, onClaim},
	"delete-memory": {tenants, onClaim},

	"get-file":    {tenants, onClaim},
	"put-file":    {tenants, onClaim},
	"delete-file": {tenants, onClaim},

	"exec":           {tenants, onClaim},
	"list-commands":  {tenants, onClaim},
	"get-command":    {tenants, onClaim},
	"end-command":    {tenants, onClaim},
	"signal-command": {tenants, onClaim},
	"resize-command": {tenants, onClaim},
	"command-output": {tenants, onClaim},
	"ack-command":    {tenants, onClaim},
	"command-input":  {tenants, onClaim},
	"start-command":  {tenants, onClaim},
	"attach-command": {tenants, onClaim},

	"create-link":  {tenants, onClaim},
	"connect-port": {tenants, onClaim},
	"port-get":     {tenants, onClaim},
	"port-head":    {tenants, onClaim},
	"port-post":    {tenants, onClaim},
	"port-put":     {tenants, onClaim},
	"port-patch":   {tenants, onClaim},
	"port-delete":  {tenants, onClaim},
	"port-options": {tenants, onClaim},

	"list-snapshots":   {keepers, onNamed},
	"restore-snapshot": {tenants, onNamed},
	"verify-snapshot":  {tenants, onNamed},
	"export-snapshot":  {tenants, onNamed},
	"import-snapshot":  {tenants, onNamed},

	"list-runs": {everyone, onList},
	"get-run":   {everyone, onRun},

	"list-deliveries":  {readers, onList},
	"get-delivery":     {readers, onDelivery},
	"retry-delivery":   {authors, onDelivery},
	"discard-delivery": {authors, onDelivery},

	"events":        {everyone, onList},
	"follow-events": {everyone, onList},
	"publish-event": {tenants, onNamed},

	"create-key": {operators, onServer},
	"list-keys":  {operators, onServer},
	"get-key":    {operators, onServer},
	"revoke-key": {operators, onServer},

	"create-token": {tenants, onNamed},

	"list-bindings":  {operators, onServer},
	"get-binding":    {operators, onServer},
	"put-binding":    {operators, onServer},
	"delete-binding": {operators, onServer},

	"whoami": {on: onAny},
	"can-i":  {on: onAny},

	"list-quotas":  {viewers, onList},
	"get-quota":    {keepers, onNamed},
	"set-quota":    {operators, onNamed},
	"delete-quota": {operators, onNamed},

	"doctor":  {viewers, onServer},
	"healthz": {on: onPublic},
	"readyz":  {on: onPublic},
	"metrics": {monitors, onServer},
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
