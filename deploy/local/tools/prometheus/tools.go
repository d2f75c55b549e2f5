//go:build tools

// Package tools pins Prometheus and promtool, with which the tests judge what deploy/monitoring/ says.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
