package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// rule is a verb on a resource, all of the group "".
type rule struct{ resource, verb string }

// rightsLoss is what an installation is without some of its rights. It is noticed, in
// the cluster's words, and mends itself when the rights are given back.
type rightsLoss struct {
	rules []rule
	// warm is whether a container waits before the rights are lost, or is to be
	// made without them.
	warm  bool
	shows func(i *installation, workload string) error
}

// rightsLosses has every verb of the Role: one that is not here, or that is not
// missed, is one too many.
var rightsLosses = map[string]rightsLoss{
	"create": {[]rule{{"pods", "create"}}, false, cannotFill(`cannot create resource "pods"`)},
	"get":    {[]rule{{"pods", "get"}}, false, cannotFill(`cannot get resource "pods"`)},
	"patch":  {[]rule{{"pods", "patch"}}, false, cannotFill(`cannot patch resource "pods"`)},
	"watch":  {[]rule{{"pods", "watch"}}, true, cannotWatch},
	"list":   {[]rule{{"pods", "list"}}, true, cannotList},
	"delete": {[]rule{{"pods", "delete"}}, true, cannotDestroy},
	"log":    {[]rule{{"pods/log", "get"}}, true, cannotReadLogs},
	"exec":   {[]rule{{"pods/exec", "create"}, {"pods/exec", "get"}}, false, cannotFill(`cannot create resource "pods/exec"`)},
	// Either alone does, up to Kubernetes 1.34: get by WebSockets, create by
	// SPDY, which is on its way out, and after a refusal each time. From 1.35
	// on WebSockets want both.
	"exec by SPDY":       {[]rule{{"pods/exec", "get"}}, false, requireFilled},
	"exec by WebSockets": {[]rule{{"pods/exec", "create"}}, false, requireFilled},
}

// cannotFill is a pool that stays empty, and says why.
func cannotFill(words string) func(*installation, string) error {
	return func(i *installation, id string) error {
		p, err := i.Pool(i.t.Context(), id)
		if err == nil && !strings.Contains(p.Fill.LastError, words) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	}
}

// cannotList is a server that cannot compare the cluster with its records, as
// the log reports.
func cannotList(i *installation, _ string) error {
	if !strings.Contains(i.log(), `cannot list resource \"pods\"`) {
		return errors.New("the log does not report that pods could not be listed")
	}
	return nil
}

// cannotWatch is a server that hears of no death. What was allowed to watch goes on
// watching, so the next server shows it.
func cannotWatch(i *installation, _ string) error {
	old := i.server.Metadata
	i.c.mustDo(i.t, "DELETE", "/api/v1/namespaces/"+i.namespace+"/pods/"+old.Name, nil, nil)
	i.await(old.UID)
	if !strings.Contains(i.log(), `cannot watch resource \"pods\"`) {
		return errors.New("the log does not say that pods could not be watched")
	}
	return nil
}

// cannotDestroy is a container that should go and stays, as the log says.
func cannotDestroy(i *installation, id string) error {
	idle, err := i.Containers(i.t.Context(), client.ContainerFilter{Workload: id, States: []client.ContainerState{client.ContainerIdle}})
	if err != nil {
		return err
	}
	for _, c := range idle {
		if _, err := i.DestroyContainer(i.t.Context(), c.ID, false); err != nil {
			return err
		}
	}
	if !strings.Contains(i.log(), `cannot delete resource \"pods\"`) {
		return errors.New("the log does not say that a pod could not be deleted")
	}
	return nil
}

// cannotReadLogs is a server that cannot show what a container has written.
func cannotReadLogs(i *installation, id string) error {
	idle, err := i.Containers(i.t.Context(), client.ContainerFilter{Workload: id})
	if err != nil {
		return err
	}
	logs, err := i.ContainerLogs(i.t.Context(), idle[0].ID, 10)
	if err == nil {
		return errors.Join(errors.New("there are logs"), logs.Close())
	}
	if !strings.Contains(err.Error(), `cannot get resource "pods/log"`) {
		return err
	}
	return nil
}

// The server has the rights of the chart's Role and no others, anywhere.
func TestMinimalRights(t *testing.T) {
	testenv.SkipShort(t, "kubernetes")
	t.Parallel()
	c := requireCluster(t)
	requireHelm(t)
	containerNamespace := c.namespace(t, "baseline")
	i := install(t, c, c.namespace(t, "restricted"), containerNamespace, fmt.Sprintf(
		"store: { sqlite: { storageClass: %s } }\nworkloads: { namespace: %s }\n", c.volume(t), containerNamespace))

	server, nobody := c.asAccount(t, i.namespace, "hostler"), c.asAccount(t, i.namespace, "default")
	require.Equal(t, rights(t, nobody, i.namespace), rights(t, server, i.namespace), "in its own namespace it is nobody")
	require.Equal(t, rights(t, nobody, "kube-system"), rights(t, server, "kube-system"), "so it is elsewhere")
	var all []string
	for _, l := range rightsLosses {
		for _, r := range l.rules {
			all = append(all, r.verb+" "+r.resource)
		}
	}
	all = append(all, rights(t, nobody, containerNamespace)...)
	slices.Sort(all)
	require.Equal(t, slices.Compact(all), rights(t, server, containerNamespace))

	for name, l := range rightsLosses {
		t.Run(name, func(t *testing.T) {
			i := *i
			i.t = t
			i.withoutRights(name, l)
		})
	}
}

// rights are the verbs that the cluster grants the asker in a namespace.
func rights(t testing.TB, c *cluster, namespace string) []string {
	t.Helper()
	var review struct {
		Status struct {
			Incomplete    bool
			ResourceRules []struct{ Verbs, Resources []string }
		}
	}
	c.mustDo(t, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
		object{"spec": object{"namespace": namespace}}, &review)
	require.False(t, review.Status.Incomplete)
	var all []string
	for _, r := range review.Status.ResourceRules {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				all = append(all, verb+" "+resource)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// withoutRights takes rights away, looks at what that does, and gives them back.
func (i *installation) withoutRights(name string, l rightsLoss) {
	t, id := i.t, "no-"+strings.ToLower(strings.ReplaceAll(name, " ", "-"))
	t.Helper()
	i.await("") // the one before may have replaced the server
	file := workload(t, id, "pool: { min_idle: 1, max_size: 1 }\n")
	if l.warm {
		i.apply(id, file)
	}
	var role struct{ Rules []any }
	i.c.mustDo(t, "GET", i.rolePath(), nil, &role)
	mend := sync.OnceFunc(func() { i.setRules(role.Rules) })
	defer mend() // the tests after this one need them
	i.setRules(without(role.Rules, l.rules))
	i.awaitRights(func(all []string) bool {
		return !slices.ContainsFunc(l.rules, func(r rule) bool { return slices.Contains(all, r.verb+" "+r.resource) })
	})
	if !l.warm {
		_, err := i.Apply(t.Context(), id, []byte(file))
		require.NoError(t, err)
	}
	begun := time.Now()
	eventually(t, "nobody misses it", func() error { return l.shows(i, id) })
	t.Logf("missed after %s", time.Since(begun))

	mend()
	begun = time.Now()
	i.await("")
	i.awaitIdle(id)
	t.Logf("mended after %s", time.Since(begun))
	i.remove(id)
}

func (i *installation) rolePath() string {
	return "/apis/rbac.authorization.k8s.io/v1/namespaces/" + i.containerNamespace + "/roles/" + i.namespace + "-hostler"
}

func (i *installation) setRules(rules []any) {
	i.t.Helper()
	i.c.mustDo(i.t, "PATCH", i.rolePath(), object{"rules": rules}, nil)
}

// awaitRights returns when the server has the rights: the cluster takes a
// moment to see that a Role was changed.
func (i *installation) awaitRights(enough func(all []string) bool) {
	i.t.Helper()
	server := i.c.asAccount(i.t, i.namespace, "hostler")
	eventually(i.t, "the cluster does not see the change of the Role", func() error {
		if all := rights(i.t, server, i.containerNamespace); !enough(all) {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
}

// without is a Role's rules without some.
func without(rules []any, lost []rule) []any {
	var kept []any
	for _, r := range rules {
		resource := r.(object)["resources"].([]any)[0]
		verbs := []any{}
		for _, verb := range r.(object)["verbs"].([]any) {
			if !slices.Contains(lost, rule{resource.(string), verb.(string)}) {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			kept = append(kept, object{"apiGroups": []string{""}, "resources": []any{resource}, "verbs": verbs})
		}
	}
	return kept
}
