// Checks dashboards against Grafana's schema, as its foundation SDK has it: no field that it does not know, and what
// values must be.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	plugins.RegisterDefaultPlugins()
	var own dashboard.Dashboard
	// An error without anything in it is none.
	if err := own.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		return err
	}
	return own.Validate()
}

func main() {
	failed := false
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}
