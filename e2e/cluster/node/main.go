// Command node is a whole Kubernetes node in one program: etcd, the API server,
// the controller manager, the scheduler and the kubelet, picked by the first
// argument. One program links five times faster than five programs do.
//
// It promises nothing of its own: each part takes the flags that it takes
// upstream. The cluster command starts them.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts are what the program can be.
var parts = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	var name string
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	newCommand, ok := parts[name]
	if !ok {
		var names []string
		for part := range parts {
			names = append(names, part)
		}
		slices.Sort(names)
		fmt.Fprintln(os.Stderr, "usage: node "+strings.Join(names, "|")+" FLAGS")
		os.Exit(2)
	}
	// The parts parse os.Args, and show its first word in their help.
	os.Args = os.Args[1:]
	os.Exit(cli.Run(newCommand()))
}
