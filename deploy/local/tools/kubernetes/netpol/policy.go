package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// World is everything the decision depends on.
type World struct {
	Pods       []*corev1.Pod
	Namespaces map[string]*corev1.Namespace
	Policies   []*networkingv1.NetworkPolicy
}

// Guard is one isolated direction of one Pod of this node: only what an Allow matches may pass.
type Guard struct {
	Address string
	Ingress bool
	Allows  []Allow
}

// Allow matches packets by the other side's address and by port; an empty field matches all.
type Allow struct {
	Addresses []string // addresses or CIDRs of the other side
	Except    []string // CIDRs taken out of them
	Ports     []Port
}

// Port is a range of destination ports of a protocol; Last 0 means all of them.
type Port struct {
	Protocol    string
	First, Last int32
}

// Guards lists the isolated directions of the node's Pods, in a stable order.
func Guards(world World, node string) []Guard {
	var guards []Guard
	for _, pod := range world.Pods {
		if pod.Spec.NodeName != node || !hasOwnAddress(pod) {
			continue
		}
		for _, direction := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
			if guard, isolated := guardOf(world, pod, direction); isolated {
				guards = append(guards, guard)
			}
		}
	}
	slices.SortFunc(guards, func(a, b Guard) int { return slices.Compare([]string{chain(a)}, []string{chain(b)}) })
	return guards
}

// Pods in the host's network share the node's address, and an ended Pod's address may be another's by now.
func hasOwnAddress(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !pod.Spec.HostNetwork && pod.Status.PodIP != "" && !ended
}

func guardOf(world World, pod *corev1.Pod, direction networkingv1.PolicyType) (Guard, bool) {
	guard := Guard{Address: pod.Status.PodIP, Ingress: direction == networkingv1.PolicyTypeIngress}
	isolated := false
	for _, policy := range world.Policies {
		selected := policy.Namespace == pod.Namespace && matches(&policy.Spec.PodSelector, pod.Labels)
		if !selected || !slices.Contains(policy.Spec.PolicyTypes, direction) {
			continue
		}
		isolated = true
		if guard.Ingress {
			for _, rule := range policy.Spec.Ingress {
				guard.Allows = append(guard.Allows, ingressAllows(world, policy, pod, rule)...)
			}
		} else {
			for _, rule := range policy.Spec.Egress {
				guard.Allows = append(guard.Allows, egressAllows(world, policy, rule)...)
			}
		}
	}
	return guard, isolated
}

func ingressAllows(world World, policy *networkingv1.NetworkPolicy, pod *corev1.Pod, rule networkingv1.NetworkPolicyIngressRule) []Allow {
	ports, some := resolve(rule.Ports, pod)
	if !some {
		return nil
	}
	allows, peers := peersOf(world, policy, rule.From)
	if len(peers) > 0 {
		allows = append(allows, Allow{Addresses: addresses(peers)})
	}
	for i := range allows {
		allows[i].Ports = ports
	}
	return allows
}

// A named port means another number on each peer, so every peer gets its own line; CIDRs have no named ports.
func egressAllows(world World, policy *networkingv1.NetworkPolicy, rule networkingv1.NetworkPolicyEgressRule) []Allow {
	blocks, peers := peersOf(world, policy, rule.To)
	var allows []Allow
	if ports, some := resolve(rule.Ports, nil); some {
		for _, block := range blocks {
			block.Ports = ports
			allows = append(allows, block)
		}
	}
	for _, peer := range peers {
		if ports, some := resolve(rule.Ports, peer); some {
			allows = append(allows, Allow{Addresses: []string{peer.Status.PodIP}, Ports: ports})
		}
	}
	return allows
}

// peersOf splits the peers of a rule into CIDRs, as Allows without ports, and Pods. No peers at all means everyone.
func peersOf(world World, policy *networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer) ([]Allow, []*corev1.Pod) {
	if len(peers) == 0 {
		return []Allow{{}}, nil
	}
	var blocks []Allow
	var pods []*corev1.Pod
	for _, peer := range peers {
		if peer.IPBlock != nil {
			blocks = append(blocks, Allow{Addresses: []string{peer.IPBlock.CIDR}, Except: peer.IPBlock.Except})
			continue
		}
		for _, pod := range world.Pods {
			if hasOwnAddress(pod) && isPeer(world, policy, peer, pod) && !slices.Contains(pods, pod) {
				pods = append(pods, pod)
			}
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return slices.Compare([]string{a.Status.PodIP}, []string{b.Status.PodIP})
	})
	return blocks, pods
}

func isPeer(world World, policy *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer, pod *corev1.Pod) bool {
	if peer.NamespaceSelector == nil {
		if pod.Namespace != policy.Namespace {
			return false
		}
	} else {
		namespace, known := world.Namespaces[pod.Namespace]
		if !known || !matches(peer.NamespaceSelector, namespace.Labels) {
			return false
		}
	}
	return peer.PodSelector == nil || matches(peer.PodSelector, pod.Labels)
}

func matches(selector *metav1.LabelSelector, set map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(set))
}

func addresses(pods []*corev1.Pod) []string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Status.PodIP)
	}
	return list
}

// resolve turns a rule's ports into numbers on the given Pod (nil: no names known). The second result is false when the rule
// names ports of which that Pod has none, so that it allows nothing; no ports at all means every port.
func resolve(ports []networkingv1.NetworkPolicyPort, pod *corev1.Pod) ([]Port, bool) {
	var resolved []Port
	for _, port := range ports {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		switch {
		case port.Port == nil:
			resolved = append(resolved, Port{Protocol: string(protocol)})
		case port.Port.StrVal != "":
			if number := namedPort(pod, protocol, port.Port.StrVal); number != 0 {
				resolved = append(resolved, Port{string(protocol), number, number})
			}
		case port.EndPort != nil:
			resolved = append(resolved, Port{string(protocol), port.Port.IntVal, *port.EndPort})
		default:
			resolved = append(resolved, Port{string(protocol), port.Port.IntVal, port.Port.IntVal})
		}
	}
	return resolved, len(ports) == 0 || len(resolved) > 0
}

func namedPort(pod *corev1.Pod, protocol corev1.Protocol, name string) int32 {
	if pod == nil {
		return 0
	}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name && port.Protocol == protocol {
				return port.ContainerPort
			}
		}
	}
	return 0
}
