//go:build tools

// Package tools pins the registry to which the tests push a release.
package tools

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
)
