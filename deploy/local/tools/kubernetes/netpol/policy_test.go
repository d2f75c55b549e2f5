package main

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pod(namespace, app, address string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{Name: "http", Protocol: "TCP", ContainerPort: 8080}}}}},
		Status: corev1.PodStatus{PodIP: address},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func world(spec networkingv1.NetworkPolicySpec) World {
	return World{
		Pods: []*corev1.Pod{pod("a", "server", "10.0.0.1"), pod("a", "client", "10.0.0.2"), pod("b", "client", "10.0.0.3")},
		Namespaces: map[string]*corev1.Namespace{
			"a": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}}},
			"b": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "b"}}}},
		Policies: []*networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: spec}},
	}
}

func ingress(rules ...networkingv1.NetworkPolicyIngressRule) networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{PodSelector: *selector("server"), Ingress: rules,
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}
}

func from(peers ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
	return networkingv1.NetworkPolicyIngressRule{From: peers}
}

func TestGuards(t *testing.T) {
	tcp := corev1.ProtocolTCP
	port := func(p intstr.IntOrString, end *int32) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &p, EndPort: end}}}
	}
	end := int32(99)
	everyone := &metav1.LabelSelector{}
	egressNamed := networkingv1.NetworkPolicySpec{PodSelector: *selector("client"),
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{PodSelector: selector("server")}},
			Ports: port(intstr.FromString("http"), nil).Ports}}}
	for name, test := range map[string]struct {
		spec networkingv1.NetworkPolicySpec
		want []Guard
	}{
		"deny all isolates without an allow": {ingress(), []Guard{{"10.0.0.1", true, nil}}},
		"an empty rule allows everyone":      {ingress(from()), []Guard{{"10.0.0.1", true, []Allow{{}}}}},
		"a Pod selector stays in its namespace": {ingress(from(networkingv1.NetworkPolicyPeer{PodSelector: selector("client")})),
			[]Guard{{"10.0.0.1", true, []Allow{{Addresses: []string{"10.0.0.2"}}}}}},
		"a namespace selector reaches others": {
			ingress(from(networkingv1.NetworkPolicyPeer{NamespaceSelector: everyone, PodSelector: selector("client")})),
			[]Guard{{"10.0.0.1", true, []Allow{{Addresses: []string{"10.0.0.2", "10.0.0.3"}}}}}},
		"a peer that matches nobody allows nobody": {ingress(from(networkingv1.NetworkPolicyPeer{PodSelector: selector("none")})),
			[]Guard{{"10.0.0.1", true, nil}}},
		"a block keeps its exceptions": {
			ingress(from(networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.0.0.3/32"}}})),
			[]Guard{{"10.0.0.1", true, []Allow{{Addresses: []string{"10.0.0.0/8"}, Except: []string{"10.0.0.3/32"}}}}}},
		"a named port is the Pod's own": {ingress(port(intstr.FromString("http"), nil)),
			[]Guard{{"10.0.0.1", true, []Allow{{Ports: []Port{{"TCP", 8080, 8080}}}}}}},
		"an unknown port name allows nothing": {ingress(port(intstr.FromString("grpc"), nil)), []Guard{{"10.0.0.1", true, nil}}},
		"a range of ports":                    {ingress(port(intstr.FromInt32(90), &end)), []Guard{{"10.0.0.1", true, []Allow{{Ports: []Port{{"TCP", 90, 99}}}}}}},
		"egress by a peer's named port": {egressNamed,
			[]Guard{{"10.0.0.2", false, []Allow{{Addresses: []string{"10.0.0.1"}, Ports: []Port{{"TCP", 8080, 8080}}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Guards(world(test.spec), "node1"); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if table := Table(Guards(world(test.spec), "node1")); !acceptedByNft(t, table) {
				t.Errorf("nft refuses:\n%s", table)
			}
		})
	}
}

// acceptedByNft lets nft parse the table without applying it; true where there is no nft, or no right to use it.
func acceptedByNft(t *testing.T, table string) bool {
	command := exec.Command("nft", "--check", "--file", "-")
	command.Stdin = strings.NewReader(table)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Logf("nft: %s", output)
	}
	return err == nil || len(output) == 0 || strings.Contains(string(output), "Operation not permitted")
}

func TestGuardsLeavesOtherNodesHostNetworkAndEndedPodsAlone(t *testing.T) {
	w := world(ingress())
	w.Pods[0].Spec.NodeName = "node2"
	if got := Guards(w, "node1"); got != nil {
		t.Errorf("guards of another node's Pod: %+v", got)
	}
	w.Pods[0].Spec.NodeName, w.Pods[0].Spec.HostNetwork = "node1", true
	if got := Guards(w, "node1"); got != nil {
		t.Errorf("guards of a host network Pod: %+v", got)
	}
	w.Pods[0].Spec.HostNetwork, w.Pods[0].Status.Phase = false, corev1.PodSucceeded
	if got := Guards(w, "node1"); got != nil {
		t.Errorf("guards of an ended Pod: %+v", got)
	}
}
