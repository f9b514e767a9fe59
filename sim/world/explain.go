package world

import "fmt"

// explain notes a step of a request for people.
func (w *world) explain(r *request, format string, args ...any) {
	w.result.Explained[r.ID] = append(w.result.Explained[r.ID], Step{At: w.now, Text: fmt.Sprintf(format, args...)})
}

// explainRoute notes the choice of a cluster.
func (w *world) explainRoute(r *request, to Route) {
	w.explain(r, "is routed to %s%s", w.spec.Clusters[to.Cluster].ID, because(to.Reason))
}

// explainRefusal notes that none was chosen.
func (w *world) explainRefusal(r *request, to Route) {
	if to.Wait {
		w.explain(r, "waits in router %d%s", r.router.number, because(to.Reason))
		return
	}
	w.explain(r, "is refused by router %d with %q%s", r.router.number, to.Code, because(to.Reason))
}

// explainPick notes the choice of a pod.
func (w *world) explainPick(r *request, cluster int, p Pick) {
	name := w.spec.Clusters[cluster].ID
	switch {
	case p.Pod >= 0:
		w.explain(r, "gets pod %d of %s%s", p.Pod, name, because(p.Reason))
	case p.Wait:
		w.explain(r, "waits for a pod of %s%s", name, because(p.Reason))
	default:
		w.explain(r, "finds no pod of %s%s", name, because(p.Reason))
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
