package client_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// The client has types of its own, so that a program with it has nothing of the
// server. In JSON they are the server's.
func TestTypesAreTheServers(t *testing.T) {
	for _, pair := range []struct{ client, server any }{
		{client.Workload{}, api.Workload{}},
		{client.AppliedWorkload{}, api.AppliedWorkload{}},
		{client.Pool{}, pool.Status{}},
		{client.Scale{}, pool.Scale{}},
		{client.Container{}, pool.Container{}},
		{client.Claim{}, claim.Claim{}},
		{client.Run{}, hooks.Run{}},
		{client.Event{}, activity.Event{}},
		{client.Delivery{}, delivery.Delivery{}},
		{client.Replay{}, api.ReplayRequest{}},
		{client.Replayed{}, api.Replayed{}},
		{client.FollowedEvent{}, api.FollowedEvent{}},
		{client.EventPage{}, api.EventPage{}},
		{client.CommandStatus{}, api.ClaimCommand{}},
		{client.CompletedCommand{}, api.CompletedCommand{}},
		{client.CommandInput{}, api.CommandInput{}},
		{client.MemoryItem{}, memory.Item{}},
		{client.MemoryValue{}, memory.Value{}},
		{client.MemoryDeleted{}, memory.Deleted{}},
		{client.Quota{}, quota.Quota{}},
		{client.QuotaOverride{}, quota.Override{}},
		{client.FileInfo{}, runtime.FileInfo{}},
		{client.Publication{}, publish.Request{}},
		{client.Published{}, publish.Response{}},
		{client.ActivityReport{}, publish.ActivityRequest{}},
		{client.Activity{}, publish.ActivityResponse{}},
		{client.Synced{}, api.Synced{}},
		{client.Snapshot{}, api.Snapshot{}},
		{client.Report{}, doctor.Report{}},
		{client.ServerHealth{}, api.Health{}},
		{client.Key{}, credential.Key{}},
		{client.CreatedKey{}, api.CreatedKey{}},
		{client.Token{}, credential.Token{}},
		{client.WhoAmI{}, api.WhoAmI{}},
		{client.Permitted{}, api.Permitted{}},
		{client.Error{}, api.Problem{}},
		{client.ValidationError{}, workload.ValidationError{}},
	} {
		require.Equal(t, shape(reflect.TypeOf(pair.server)), shape(reflect.TypeOf(pair.client)), "%T", pair.client)
	}
}

// shape describes a type as it is in JSON: its fields' names, options and kinds.
func shape(t reflect.Type) any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t == reflect.TypeFor[activity.Pattern]():
		return "string" // as it is written
	case t.Kind() == reflect.Pointer:
		return shape(t.Elem())
	case t.Kind() == reflect.Slice:
		return []any{shape(t.Elem())}
	case t.Kind() == reflect.Map:
		return fmt.Sprintf("map of %v", shape(t.Elem()))
	case t.Kind() != reflect.Struct:
		return t.Kind().String()
	}
	fields := map[string]any{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		fields[name+" "+options] = shape(f.Type)
	}
	return fields
}

// The constants are the server's values.
func TestConstantsAreTheServers(t *testing.T) {
	require.Equal(t, texts(pool.States()), texts([]client.ContainerState{
		client.ContainerCreating, client.ContainerIdle, client.ContainerClaimed, client.ContainerDestroying, client.ContainerDestroyed,
	}))
	require.Equal(t, texts(claim.States()), texts([]client.ClaimState{
		client.ClaimPending, client.ClaimActive, client.ClaimReleasing, client.ClaimReleaseFailed, client.ClaimReleased, client.ClaimFailed,
	}))
	require.Equal(t, texts([]hooks.RunState{
		hooks.Running, hooks.Succeeded, hooks.Failed, hooks.TimedOut, hooks.StartFailed, hooks.Lost, hooks.Cancelled, hooks.Unknown, hooks.Skipped,
	}), texts([]client.RunState{
		client.RunRunning, client.RunSucceeded, client.RunFailed, client.RunTimedOut, client.RunStartFailed, client.RunLost,
		client.RunCancelled, client.RunUnknown, client.RunSkipped,
	}))
	require.Equal(t, texts([]hooks.Point{hooks.PostCreate, hooks.PostClaim, hooks.PreRelease, hooks.PreDestroy}),
		texts([]client.Point{client.PostCreate, client.PostClaim, client.PreRelease, client.PreDestroy}))
	require.Equal(t, texts([]claim.Source{claim.Fresh, claim.Affinity, claim.Recycled}),
		texts([]client.Source{client.SourceFresh, client.SourceAffinity, client.SourceRecycled}))
	require.Equal(t, texts([]pool.Health{pool.Healthy, pool.Unhealthy, pool.Exited}),
		texts([]client.Health{client.Healthy, client.Unhealthy, client.Exited}))
	require.Equal(t, texts(memory.Levels()), texts([]client.MemoryLevel{client.MemoryOfClaim, client.MemoryOfTenant, client.MemoryOfWorkload}))
	require.Equal(t, texts(quota.Levels()), texts([]client.QuotaLevel{client.QuotaTenant, client.QuotaKey, client.QuotaWorkload}))
	require.Equal(t, string(api.LogTruncated), string(client.LogTruncated))
	require.Equal(t, string(api.LogEnded), string(client.LogEnded))
}

// Which errors are temporary is what the server's document says of each code.
func TestTemporaryCodesAreTheServers(t *testing.T) {
	w := httptest.NewRecorder()
	api.New(api.Options{Metrics: http.NotFoundHandler()}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", http.NoBody))
	var document struct {
		Components struct {
			Schemas struct {
				Problem struct {
					Temporary  []client.Code `json:"x-temporary-codes"`
					Properties struct{ Code struct{ Enum []client.Code } }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &document))
	problem := document.Components.Schemas.Problem
	require.NotEmpty(t, problem.Temporary)
	for _, code := range problem.Properties.Code.Enum {
		require.Equal(t, slices.Contains(problem.Temporary, code), (&client.Error{Code: code}).IsTemporary(), code)
	}
}

// The client has every type of event and every code of an error.
func TestConstantsAreComplete(t *testing.T) {
	require.ElementsMatch(t, append(constants(t, "../activity", "Type"), string(api.LogTruncated), string(api.LogEnded)), constants(t, ".", "EventType"))
	require.ElementsMatch(t, constants(t, "../api", "Code"), constants(t, ".", "Code"))
}

// constants are the values of the constants of a type in a package's source.
func constants(t *testing.T, dir, typeName string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	values := []string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			ident, typed := spec.Type.(*ast.Ident)
			value, literal := spec.Values[0].(*ast.BasicLit)
			if typed && literal && ident.Name == typeName {
				text, err := strconv.Unquote(value.Value)
				require.NoError(t, err)
				values = append(values, text)
			}
			return true
		})
	}
	require.NotEmpty(t, values)
	return values
}

func texts[S ~string](values []S) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}
