//go:build tools

// Package tools pins a container runtime that mounts images as volumes, for one test; nodes otherwise run Debian's.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
