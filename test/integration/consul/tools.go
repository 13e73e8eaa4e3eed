//go:build tools

// Package consul pins the Consul that the tests run: the last line of versions under the MPL.
package consul

import _ "github.com/hashicorp/consul"
