//go:build tools

// Package tools pins oras, which copies a release into a registry.
package tools

import (
	_ "oras.land/oras/cmd/oras"
)
