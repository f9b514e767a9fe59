package dev

import (
	"fmt"
	"strings"

	"anabranch/cmd/anabranch/dev/seed"
)

// page is what a user sees once everything runs: where, with which keys, and what to try.
func page(o Options, r *Record) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-15s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\nAnabranch runs. Everything below is also in %s.\n\n", o.Folder.RecordPath())
	row("console", "%s (`%s console` prints a link that signs you in)", r.ControlPlane[0].HTTP, o.Program)
	for _, n := range r.ControlPlane {
		row("control plane", "%s (%s)", n.HTTP, n.ID)
	}
	for _, router := range r.Routers {
		row("router", "%s (%s)", router.HTTP, router.Region)
	}
	for _, router := range r.Routers {
		row("order socket", "%s (%s)", o.Folder.Orders(router.Region), router.Region)
	}
	for _, tenant := range seed.Tenants() {
		row("API key", "%s (%s, %s)", r.Tenants[tenant].Key, tenant, r.Tenants[tenant].Tier)
	}
	row("models", "%s", strings.Join(seed.Models(), ", "))
	fmt.Fprintf(&b, `
Three things to try, in another terminal in this folder:

  curl -i %s/v1/chat/completions -H 'Authorization: Bearer %s' \
    -H 'Content-Type: application/json' \
    -d '{"model": %q, "messages": [{"role": "user", "content": "hello"}]}'
  %s dev load
  %s dev break region us-east-1      # and later: %s dev heal region us-east-1

Ctrl-C ends everything, or %s dev stop.
`, r.Routers[0].HTTP, r.Tenants["acme"].Key, r.Models[0], o.Program, o.Program, o.Program, o.Program)
	return b.String()
}
