//go:build tools

// Package tools names the command that is built, so that go.mod pins all it needs.
package tools

import _ "go.etcd.io/etcd/server/v3"
