// Command netpol enforces NetworkPolicy on one node of the local cluster: it watches Pods, Namespaces and policies and
// keeps one nftables table of the network namespace it runs in. It expects Pod traffic to be routed through that namespace
// (CNI plugin ptp), and knows IPv4 only, as the local cluster does. Deciding is in policy.go, the table's text in table.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Changes arrive in bursts; the table is written at most this often.
const settle = 20 * time.Millisecond

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file to reach the API server with")
	node := flag.String("node", "", "name of the node whose Pods are guarded")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *node); err != nil {
		fmt.Fprintf(os.Stderr, "netpol on node %s: %v\n", *node, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, node string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("while reading the kubeconfig %s: %w", kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("while making a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	namespaces := factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	changed := make(chan struct{}, 1)
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		if _, err := informer.AddEventHandler(notify(changed)); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("stopped before all objects of %v were read", kind)
		}
	}
	written := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		time.Sleep(settle)
		var world World
		if world.Pods, err = pods.Lister().List(labels.Everything()); err != nil {
			return err
		}
		if world.Policies, err = policies.Lister().List(labels.Everything()); err != nil {
			return err
		}
		all, err := namespaces.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		world.Namespaces = map[string]*corev1.Namespace{}
		for _, namespace := range all {
			world.Namespaces[namespace.Name] = namespace
		}
		if table := Table(Guards(world, node)); table != written {
			if err := apply(ctx, table); err != nil {
				return err
			}
			written = table
		}
	}
}

func notify(changed chan<- struct{}) cache.ResourceEventHandler {
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { poke() },
		UpdateFunc: func(any, any) { poke() },
		DeleteFunc: func(any) { poke() },
	}
}

// apply replaces the whole table in one transaction, so that no packet meets half of it.
func apply(ctx context.Context, table string) error {
	command := exec.CommandContext(ctx, "nft", "-f", "-")
	command.Stdin = strings.NewReader(table)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("while writing the nftables table: %w: %s", err, output)
	}
	log.Printf("Wrote table bytes=%d", len(table))
	return nil
}
