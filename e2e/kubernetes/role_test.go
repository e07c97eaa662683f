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
)

// rule is a verb on a resource, all of the group "".
type rule struct{ resource, verb string }

// rightsLoss is a loss of some rights of an installation. The cluster's error is
// reported, and the installation recovers when the rights are restored.
type rightsLoss struct {
	rules []rule
	// warm is whether there is an idle container before the rights are lost, or
	// one is created without them.
	warm  bool
	shows func(i *installation, workload string) error
}

// rightsLosses has every verb of the Role: a verb that is not here, or whose loss
// has no effect, is not needed.
var rightsLosses = map[string]rightsLoss{
	"create": {[]rule{{"pods", "create"}}, false, cannotFill(`cannot create resource "pods"`)},
	"get":    {[]rule{{"pods", "get"}}, false, cannotFill(`cannot get resource "pods"`)},
	"patch":  {[]rule{{"pods", "patch"}}, false, cannotFill(`cannot patch resource "pods"`)},
	"watch":  {[]rule{{"pods", "watch"}}, true, cannotWatch},
	"list":   {[]rule{{"pods", "list"}}, true, cannotList},
	"delete": {[]rule{{"pods", "delete"}}, true, cannotDestroy},
	"log":    {[]rule{{"pods/log", "get"}}, true, cannotReadLogs},
	"exec":   {[]rule{{"pods/exec", "create"}, {"pods/exec", "get"}}, false, cannotFill(`cannot create resource "pods/exec"`)},
	// Either alone is enough up to Kubernetes 1.34: get for WebSockets, create
	// for SPDY, which is deprecated, and used after a refusal each time. From
	// 1.35 on WebSockets need both.
	"exec by SPDY":       {[]rule{{"pods/exec", "get"}}, false, requireFilled},
	"exec by WebSockets": {[]rule{{"pods/exec", "create"}}, false, requireFilled},
}

// cannotFill checks that the pool reports an error with these words.
func cannotFill(words string) func(*installation, string) error {
	return func(i *installation, id string) error {
		p, err := i.Pool(i.t.Context(), id)
		if err == nil && !strings.Contains(p.Fill.LastError, words) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	}
}

// cannotList checks that the log reports that the server cannot compare the
// cluster with its records.
func cannotList(i *installation, _ string) error {
	if !strings.Contains(i.log(), `cannot list resource \"pods\"`) {
		return errors.New("the log does not report that pods could not be listed")
	}
	return nil
}

// cannotWatch checks that the log reports that the server cannot watch pods. An
// open watch continues without the right, so the server is restarted.
func cannotWatch(i *installation, _ string) error {
	old := i.server.Metadata
	i.c.mustDo(i.t, "DELETE", "/api/v1/namespaces/"+i.namespace+"/pods/"+old.Name, nil, nil)
	i.await(old.UID)
	if !strings.Contains(i.log(), `cannot watch resource \"pods\"`) {
		return errors.New("the log does not report that pods could not be watched")
	}
	return nil
}

// cannotDestroy checks that the log reports that a pod could not be deleted.
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
		return errors.New("the log does not report that a pod could not be deleted")
	}
	return nil
}

// cannotReadLogs checks that the server cannot show a container's log.
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
	t.Parallel()
	c := requireCluster(t)
	requireHelm(t)
	containerNamespace := c.namespace(t, "baseline")
	i := install(t, c, c.namespace(t, "restricted"), containerNamespace, fmt.Sprintf(
		"store: { sqlite: { storageClass: %s } }\nworkloads: { namespace: %s }\n", c.volume(t), containerNamespace))

	server, unprivileged := c.asAccount(t, i.namespace, "hostler"), c.asAccount(t, i.namespace, "default")
	require.Equal(t, rights(t, unprivileged, i.namespace), rights(t, server, i.namespace), "no rights in its own namespace")
	require.Equal(t, rights(t, unprivileged, "kube-system"), rights(t, server, "kube-system"), "no rights in others")
	var all []string
	for _, l := range rightsLosses {
		for _, r := range l.rules {
			all = append(all, r.verb+" "+r.resource)
		}
	}
	all = append(all, rights(t, unprivileged, containerNamespace)...)
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

// rights returns the verbs that the cluster grants the client in a namespace.
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

// withoutRights removes rights, checks the effect, and restores them.
func (i *installation) withoutRights(name string, l rightsLoss) {
	t, id := i.t, "no-"+strings.ToLower(strings.ReplaceAll(name, " ", "-"))
	t.Helper()
	i.await("") // the test before may have replaced the server
	file := workload(t, id, "pool: { min_idle: 1, max_size: 1 }\n")
	if l.warm {
		i.apply(id, file)
	}
	var role struct{ Rules []any }
	i.c.mustDo(t, "GET", i.rolePath(), nil, &role)
	restore := sync.OnceFunc(func() { i.setRules(role.Rules) })
	defer restore() // later tests need them
	i.setRules(without(role.Rules, l.rules))
	i.awaitRights(func(all []string) bool {
		return !slices.ContainsFunc(l.rules, func(r rule) bool { return slices.Contains(all, r.verb+" "+r.resource) })
	})
	if !l.warm {
		_, err := i.Apply(t.Context(), id, []byte(file))
		require.NoError(t, err)
	}
	begun := time.Now()
	eventually(t, "the loss has no effect", func() error { return l.shows(i, id) })
	t.Logf("reported after %s", time.Since(begun))

	restore()
	begun = time.Now()
	i.await("")
	i.awaitIdle(id)
	t.Logf("recovered after %s", time.Since(begun))
	i.remove(id)
}

func (i *installation) rolePath() string {
	return "/apis/rbac.authorization.k8s.io/v1/namespaces/" + i.containerNamespace + "/roles/" + i.namespace + "-hostler"
}

func (i *installation) setRules(rules []any) {
	i.t.Helper()
	i.c.mustDo(i.t, "PATCH", i.rolePath(), object{"rules": rules}, nil)
}

// awaitRights waits until the server has the rights: the cluster applies a change
// of a Role with a delay.
func (i *installation) awaitRights(enough func(all []string) bool) {
	i.t.Helper()
	server := i.c.asAccount(i.t, i.namespace, "hostler")
	eventually(i.t, "the change of the Role has no effect", func() error {
		if all := rights(i.t, server, i.containerNamespace); !enough(all) {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
}

// without returns a Role's rules without the lost ones.
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
