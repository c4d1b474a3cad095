// own-scheduler is a kube-scheduler with one plugin more: what people build to replace the default scheduler.
//
// The plugin Stamp filters and scores nodes by a label, and stamps the time of its decision on every pod. Its arguments can also
// make it misbehave, each in one way that a real plugin does; see Args.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/cli"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	framework "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

const (
	name       = "Stamp"
	annotation = "own-scheduler.example/stamp"
)

// Args are the arguments of the plugin.
type Args struct {
	// Label whose value, a number, is the score of a node.
	Label string `json:"label"`
	// Mode is how the plugin misbehaves: "" or "panic", "block", "crd", "rights".
	Mode string `json:"mode,omitempty"`
}

// Stamp is the plugin.
type Stamp struct {
	args   Args
	handle fwk.Handle
}

// New makes the plugin, or refuses its arguments.
func New(_ context.Context, given runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args := Args{}
	if err := framework.DecodeInto(given, &args); err != nil {
		return nil, err
	}
	if args.Label == "" {
		return nil, fmt.Errorf("the plugin %s needs the argument label", name)
	}
	switch args.Mode {
	case "panic":
		panic("the plugin panics in its constructor")
	case "block":
		time.Sleep(time.Hour)
	case "crd":
		go needsCRD(handle)
	case "rights":
		go needsSecrets(handle)
	case "":
	default:
		return nil, fmt.Errorf("the plugin %s has no mode %q", name, args.Mode)
	}
	return &Stamp{args, handle}, nil
}

// needsCRD ends the scheduler where a kind is missing, as plugins do that watch one.
func needsCRD(handle fwk.Handle) {
	time.Sleep(2 * time.Second)
	if _, err := handle.ClientSet().Discovery().ServerResourcesForGroupVersion("own-scheduler.example/v1"); err != nil {
		fmt.Fprintln(os.Stderr, "the CRDs of own-scheduler.example/v1 are not installed:", err)
		os.Exit(1)
	}
}

// needsSecrets ends the scheduler where it may not do what the plugin needs.
func needsSecrets(handle fwk.Handle) {
	time.Sleep(2 * time.Second)
	if _, err := handle.ClientSet().CoreV1().Secrets("").List(context.Background(), metav1.ListOptions{Limit: 1}); err != nil {
		fmt.Fprintln(os.Stderr, "the scheduler may not list secrets:", err)
		os.Exit(1)
	}
}

// Name is the plugin's.
func (*Stamp) Name() string { return name }

// Filter refuses nodes whose label is "never".
func (stamp *Stamp) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if node.Node().Labels[stamp.args.Label] == "never" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the node's label says never")
	}
	return nil
}

// Score is the number in the label.
func (stamp *Stamp) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	score := int64(0)
	_, _ = fmt.Sscan(node.Node().Labels[stamp.args.Label], &score)
	return min(max(score, fwk.MinNodeScore), fwk.MaxNodeScore), nil
}

// ScoreExtensions are none: labels are scores already.
func (*Stamp) ScoreExtensions() fwk.ScoreExtensions { return nil }

// PreBindPreFlight says that every pod is stamped.
func (*Stamp) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

// PreBind stamps the pod; a scheduler that may not do that schedules all the same.
func (stamp *Stamp) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	now := fmt.Sprint(time.Now().UnixNano())
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: now}}})
	pods := stamp.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, "cannot stamp the pod:", err)
	}
	return nil
}

func main() {
	// one program under three names, so that one image has all of them
	switch path.Base(os.Args[0]) {
	case "own-scheduler-ends":
		fmt.Fprintln(os.Stderr, "this program ends at once")
		os.Exit(3)
	case "own-scheduler-ignores":
		// a fork that does not know the flag
		os.Args = slices.DeleteFunc(os.Args, func(word string) bool { return strings.HasPrefix(word, "--write-config-to") })
	case "own-scheduler-serves":
		// a build whose serving certificate is not on the node
		os.Args = append(os.Args, "--tls-cert-file=/no-such/tls.crt", "--tls-private-key-file=/no-such/tls.key")
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(name, New))))
}
