package node

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/credential"
	"anabranch/controlplane/collect"
)

// secretVariables begin so: the only ones that are read as credentials towards clusters. Clusters are
// written by operators, who must not get the rest of the node's environment sent to a place of theirs.
const secretVariables = "ANABRANCH_SECRET_"

// wireCollect makes what polls clusters where no router reports.
func (n *Node) wireCollect(registry *prometheus.Registry) error {
	o := collect.Options{
		Node: n.store.ID(), View: func() collect.Resources { return n.store.View() }, Changed: n.store.Changed,
		Signals: n.signals, Registerer: registry, Logger: n.o.Logger,
	}
	if n.o.SecretsDir != "" {
		o.Secrets = credential.New(credential.Options{
			Dir: n.o.SecretsDir, Control: collect.Allowed, Logger: n.o.Logger,
			Variable: func(name string) bool { return strings.HasPrefix(name, secretVariables) },
		})
	}
	var err error
	n.collect, err = collect.New(o)
	return err
}
