// Command mutants applies one mutation of the program at a time and runs the
// unit test that detects it: a mutation that no test detects means that a
// promise is untested. The mutations are the tables of this package. No file of
// the tree is changed.
//
//	mutants [-l] [PATTERN]
//
// PATTERN is a regular expression that matches the table's title, the file or
// the description of a mutation; without it all are applied. The results are
// printed as Markdown; -l prints the tables and runs nothing. The command fails
// when a mutation was not detected or could not be applied: its text is not in
// its file, or the program does not build with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
)

// mutation is one incorrect change of the program.
type mutation struct {
	desc string // description for people
	file string
	old  string // occurs once in file
	new  string
	pkg  string // the package of the test, if it differs from the file's
	test string // the test that detects it; empty: all of the package
	// equivalent is why the mutation does not change the behavior, so that no
	// test can detect it.
	equivalent string
}

// group is a table of mutations.
type group struct {
	title string
	list  []mutation
}

// groups are the tables of mutations.
var groups = []group{
	{"The flows: the order and the effect of their steps", steps},
	{"claim, snapshot", claims},
	{"The environment of a claim", environments},
	{"snapshot: ranges, keys and versions", stateKeys},
	{"release", releases},
	{"pool", pools},
	{"pool: failures to create containers", breakers},
	{"What is kept of containers that failed", slices.Concat(outputs, shownOutputs, printedOutputs)},
	{"Destruction by force", forces},
	{"pool: recovery from failures, and fairness between pools", recoveries},
	{"Events and those who follow them", events},
	{"Events and activities of tenants' programs", published},
	{"hooks", slices.Concat(hookRuns, hookTrails, imageHooks)},
	{"Requests of hooks", slices.Concat(hookRequests, hookSecrets)},
	{"hooks/variables", variableRows},
	{"Workload files", slices.Concat(workloadFiles, followed)},
	{"Uploads of state", slices.Concat(uploadRows, treeAttacks)},
	{"Tools for authors of hooks", tools},
	{"store", stores},
	{"Deliveries", slices.Concat(deliveries, deliveryFlows, deliveryStores)},
	{"Waits", waits},
	{"Downloads", downloads},
	{"Memory", slices.Concat(memories, memoryRows)},
	{"Quotas", quotas},
	{"Verification, export and import of snapshots", archives},
	{"Descriptions, parts of ids, newest first", descriptions},
	{"Files of claims", fileUses},
	{"membership", memberships},
	{"Retries and queues", queues},
	{"The program in containers, and sessions with it", shims},
	{"Rows of docs/hook-rows.md, and containers of older versions", hookRows},
	{"What tenants do with their containers", uses},
	{"Parameters, labels and lifetimes of claims", parameters},
	{"Listeners and failed credentials", slices.Concat(transports, failedCredentials, credentialAttacks)},
	{"Keys, tokens and bindings", credentials},
	{"The routes and commands of keys", keyRoutes},
	{"What has ended, and what is of others", lateUses},
	{"Files of tenants", tenantFiles},
	{"Ports of claims", portRows},
	{"What programs and clients of ports leave unfinished", unfinishedRows},
	{"Requests from inside a container", slices.Concat(insideRequests, askedTwice)},
	{"The description of the API, and the runtime in memory", slices.Concat(documents, fakes)},
	{"Gates and guards", gateRows},
	{"Commands of tenants", slices.Concat(tenantCommands, shimCommands, tenantLimits)},
	{"Clients in other languages", clients},
	{"Who may do what", scopeRows},
	{"Tokens of other issuers, logins and contexts", oidcRows},
	{"Packs of snapshots, and what is removed of them", slices.Concat(packRows, lateCommits, suspendedRows)},
	{"Forged state, and hostile archives", forgeryRows},
	{"Metrics", metricRows},
	{"Trials of workload files, and what a program learns of its claim", trials},
	{"What newcomers are shown", newcomers},
	{"What operators are shown of failures", diagnoses},
	{"What is shown of hooks that run", liveOutputs},
}

func main() {
	list := flag.Bool("l", false, "print the tables and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	apply := try
	if *list {
		apply = func(_ context.Context, m mutation) result { return result{test: m.test} }
	}
	if err := run(ctx, flag.Arg(0), apply); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// errUnexpected is returned when a test or a table is incomplete.
var errUnexpected = errors.New("not every mutation was applied and detected")

func run(ctx context.Context, pattern string, apply func(context.Context, mutation) result) error {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	total, unexpected := 0, 0
	for _, g := range groups {
		list := slices.DeleteFunc(slices.Clone(g.list), func(m mutation) bool {
			return !match.MatchString(g.title + " " + m.file + " " + m.desc)
		})
		if len(list) == 0 {
			continue
		}
		fmt.Printf("\n## %s\n\n| file | mutation | detected by |\n|---|---|---|\n", g.title)
		for _, m := range list {
			r := apply(ctx, m)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			total++
			if !r.isExpected(m) {
				unexpected++
			}
			fmt.Printf("| `%s` | %s | %s |\n", m.file, m.desc, r.text(m))
		}
	}
	fmt.Printf("\n%d mutations, %d with unexpected results\n", total, unexpected)
	if unexpected > 0 {
		return errUnexpected
	}
	return nil
}
