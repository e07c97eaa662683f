package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// Bounds of a part of an id, and of what is listed for it.
const (
	minIDPart     = 4
	maxIDPart     = 36
	maxIDMatches  = 50 // hook runs have several attempts of one id
	maxCandidates = 10
)

// idKind is a kind of object whose ids can be abbreviated.
type idKind struct {
	name string
	// list returns the ids that begin or end with a part, in every state.
	list func(ctx context.Context, c *client.Client, part string) ([]string, error)
}

// idKinds are the kinds by the name of an argument, a flag, or the command of an
// argument ID.
var idKinds = func() map[string]idKind {
	claims, containers, runs := idKind{"claim", listClaimIDs}, idKind{"container", listContainerIDs}, idKind{"run", listRunIDs}
	deliveries, waits := idKind{"delivery", listDeliveryIDs}, idKind{"wait", listWaitIDs}
	return map[string]idKind{
		"CLAIM": claims, "claim": claims, "claims": claims,
		"CONTAINER": containers, "container": containers, "containers": containers,
		"RUN": runs, "run": runs, "runs": runs,
		"delivery": deliveries, "deliveries": deliveries, "waits": waits,
	}
}()

// places are the names of arguments that may be CLAIM:PATH.
var places = []string{"CLAIM:PATH", "SOURCE", "DESTINATION"}

func listClaimIDs(ctx context.Context, c *client.Client, part string) ([]string, error) {
	items, err := c.Claims(ctx, client.ClaimFilter{IDPart: part, States: typedAs[client.ClaimState](claimStates), Newest: true, Limit: maxIDMatches})
	return idsOf(items, func(c client.Claim) string { return c.ID }), err
}

func listContainerIDs(ctx context.Context, c *client.Client, part string) ([]string, error) {
	items, err := c.Containers(ctx, client.ContainerFilter{IDPart: part, States: typedAs[client.ContainerState](containerStates), Newest: true, Limit: maxIDMatches})
	return idsOf(items, func(b client.Container) string { return b.ID }), err
}

func listRunIDs(ctx context.Context, c *client.Client, part string) ([]string, error) {
	items, err := c.Runs(ctx, client.RunFilter{IDPart: part, NoOutput: true, Newest: true, Limit: maxIDMatches})
	return slices.Compact(idsOf(items, func(r client.Run) string { return r.ID })), err
}

func listDeliveryIDs(ctx context.Context, c *client.Client, part string) ([]string, error) {
	items, err := c.Deliveries(ctx, client.DeliveryFilter{IDPart: part, Newest: true, Limit: maxIDMatches})
	return idsOf(items, func(d client.Delivery) string { return d.ID }), err
}

func listWaitIDs(ctx context.Context, c *client.Client, part string) ([]string, error) {
	items, err := c.Waits(ctx, client.WaitFilter{IDPart: part, Newest: true, Limit: maxIDMatches})
	return idsOf(items, func(w client.Wait) string { return w.ID }), err
}

// snapshotsOf returns the snapshots of the owner that a command's flags name, and
// false without an owner.
func snapshotsOf(cmd *cobra.Command) (idKind, bool) {
	workload, _ := cmd.Flags().GetString("workload")
	tenant, _ := cmd.Flags().GetString("tenant")
	list := func(ctx context.Context, c *client.Client, part string) ([]string, error) {
		all, err := c.Snapshots(ctx, workload, tenant) // which are few
		ids := idsOf(all, func(s client.Snapshot) string { return s.ID })
		return slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, part) && !strings.HasSuffix(id, part) }), err
	}
	return idKind{"snapshot", list}, workload != "" && tenant != ""
}

// completeIDs returns the arguments of a command with whole ids in place of parts of
// ids, and does so in its flags. A whole id costs no request.
func completeIDs(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) ([]string, error) {
	args = slices.Clone(args)
	for i, argument := range argumentsOf(cmd) {
		if i >= len(args) {
			break
		}
		part, rest := args[i], ""
		kind, ok := idKinds[argument.name]
		if argument.name == "ID" {
			kind, ok = idKinds[cmd.Name()]
		}
		if argument.name == "SNAPSHOT" {
			kind, ok = snapshotsOf(cmd)
		}
		if slices.Contains(places, argument.name) {
			p, err := parsePlace(args[i])
			if err != nil || p.claim == "" {
				continue
			}
			kind, ok = idKinds["claim"]
			part, rest = p.claim, strings.TrimPrefix(args[i], p.claim)
		}
		if !ok {
			continue
		}
		id, err := kind.find(ctx, c, part)
		if err != nil {
			return nil, err
		}
		args[i] = id + rest
	}
	return args, completeFlagIDs(ctx, cmd, c)
}

// completeFlagIDs sets flags that are a part of an id to the whole id.
func completeFlagIDs(ctx context.Context, cmd *cobra.Command, c *client.Client) error {
	for _, name := range []string{"claim", "container", "run"} {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed || f.Value.Type() != "string" {
			continue
		}
		id, err := idKinds[name].find(ctx, c, f.Value.String())
		if err == nil {
			err = f.Value.Set(id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// find returns the id that begins or ends with a part. If there is none, or ids
// cannot be listed, that is the part: the command's own request returns the error.
func (k idKind) find(ctx context.Context, c *client.Client, part string) (string, error) {
	if len(part) < minIDPart || len(part) >= maxIDPart || uuid.Validate(part) == nil {
		return part, nil
	}
	ids, err := k.list(ctx, c, part)
	if err != nil || len(ids) == 0 || slices.Contains(ids, part) {
		return part, nil
	}
	if len(ids) == 1 {
		return ids[0], nil
	}
	more := ""
	if len(ids) > maxCandidates {
		ids, more = ids[:maxCandidates], " and others"
	}
	return "", &exitError{exitUsage, fmt.Errorf("several %ss begin or end with %s: %s%s", k.name, part, strings.Join(ids, ", "), more)}
}

// argument is an argument as the usage line of a command names it.
type argument struct {
	name     string
	optional bool
}

// argumentsOf returns the arguments that come before flags in the usage line.
func argumentsOf(cmd *cobra.Command) []argument {
	var all []argument
	for _, word := range strings.Fields(cmd.Use)[1:] {
		name := strings.Trim(word, "[].")
		if name == "" || strings.HasPrefix(name, "-") || name == "|" {
			break
		}
		all = append(all, argument{name, strings.HasPrefix(word, "[")})
	}
	return all
}
