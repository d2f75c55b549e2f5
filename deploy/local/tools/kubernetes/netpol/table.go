package main

import (
	"fmt"
	"strings"
)

// Table renders the nftables table that replaces the one before it. A packet passes when the chain of its sender's egress and
// that of its receiver's ingress, where there are such, both return; answers to what was let through pass at once.
func Table(guards []Guard) string {
	var text strings.Builder
	text.WriteString("table inet netpol\ndelete table inet netpol\ntable inet netpol {\n")
	for _, guard := range guards {
		fmt.Fprintf(&text, "  chain %s {\n", chain(guard))
		for _, allow := range guard.Allows {
			for _, match := range matchesOf(allow, guard.Ingress) {
				fmt.Fprintf(&text, "    %sreturn\n", match)
			}
		}
		text.WriteString("    counter drop\n  }\n")
	}
	text.WriteString("  chain forward {\n    type filter hook forward priority filter; policy accept;\n")
	text.WriteString("    ct state established,related accept\n")
	writeJumps(&text, guards, false, "saddr")
	writeJumps(&text, guards, true, "daddr")
	text.WriteString("  }\n}\n")
	return text.String()
}

func chain(guard Guard) string {
	direction := "egress"
	if guard.Ingress {
		direction = "ingress"
	}
	return direction + "_" + strings.ReplaceAll(guard.Address, ".", "_")
}

func writeJumps(text *strings.Builder, guards []Guard, ingress bool, side string) {
	var jumps []string
	for _, guard := range guards {
		if guard.Ingress == ingress {
			jumps = append(jumps, guard.Address+" : jump "+chain(guard))
		}
	}
	if len(jumps) > 0 {
		fmt.Fprintf(text, "    ip %s vmap { %s }\n", side, strings.Join(jumps, ", "))
	}
}

// matchesOf gives the match of each line that an Allow needs: one per protocol and port range, each ending in a blank.
func matchesOf(allow Allow, ingress bool) []string {
	side := "daddr"
	if ingress {
		side = "saddr"
	}
	address := ""
	if len(allow.Addresses) > 0 {
		address = fmt.Sprintf("ip %s { %s } ", side, strings.Join(allow.Addresses, ", "))
	}
	if len(allow.Except) > 0 {
		address += fmt.Sprintf("ip %s != { %s } ", side, strings.Join(allow.Except, ", "))
	}
	if len(allow.Ports) == 0 {
		return []string{address}
	}
	var lines []string
	for _, port := range allow.Ports {
		protocol := strings.ToLower(port.Protocol)
		if port.Last == 0 {
			lines = append(lines, fmt.Sprintf("%smeta l4proto %s ", address, protocol))
		} else {
			lines = append(lines, fmt.Sprintf("%s%s dport %d-%d ", address, protocol, port.First, port.Last))
		}
	}
	return lines
}
