package rest

import (
	"fmt"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// fits judges what a write would make by size: its own document, and the routing table with it, which
// must fit a log entry or nothing can be published any more. What is over the budget already may
// shrink, and deletions always may.
func (r resources) fits(view *state.View, cmd *statepb.Command) error {
	put := cmd.GetPut()
	if put == nil {
		return nil
	}
	if n := len(put.GetDoc()); n > state.MaxDoc {
		return newProblem(codeOverBudget, fmt.Sprintf("The document has %d bytes, the limit is %d.", n, state.MaxDoc), policy.Problem{
			Field: "spec", Reason: fmt.Sprintf("makes the document %d bytes long, the limit is %d", n, state.MaxDoc),
			Fix: "divide it into several resources",
		})
	}
	if r.o.TableSize == nil {
		return nil
	}
	next, out := state.Rehearse(view, cmd)
	if out.GetCode() != "" {
		return nil // whoever applies it in earnest says what is wrong
	}
	size, err := r.o.TableSize(next)
	if err != nil {
		return fmt.Errorf("measure the table: %w", err)
	}
	if size <= TableBudget {
		return nil
	}
	before, err := r.o.TableSize(view)
	if err != nil {
		return fmt.Errorf("measure the table: %w", err)
	}
	if size <= before {
		return nil
	}
	return newProblem(codeOverBudget, fmt.Sprintf("The routing table would take %d bytes, compressed, the limit is %d; it takes %d now.", size, TableBudget, before), policy.Problem{
		Field: "spec", Reason: fmt.Sprintf("makes the routing table %d bytes large, the limit is %d", size, TableBudget),
		Fix: "delete tenants, clusters, models or policies that are not needed, or serve fewer models on each cluster",
	})
}
