package rest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"anabranch/controlplane/policy"
)

// etag of a revision.
func etag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// condition is what a write expects of the resource.
type condition struct {
	create   bool   // it must not exist
	any      bool   // it must exist, whichever revision (If-Match: *)
	revision uint64 // it must have this revision
}

const preconditionHelp = `Send If-Match with the ETag of what you read`

// conditionOf reads If-Match and If-None-Match. current is the resource's revision now, 0 for none:
// of several ETags, it chooses the one that matches. createToo allows If-None-Match: *.
func conditionOf(h http.Header, current uint64, createToo bool) (condition, error) {
	match, none := strings.Join(h.Values("If-Match"), ","), strings.Join(h.Values("If-None-Match"), ",")
	switch {
	case match != "" && none != "":
		return condition{}, newProblem(codeInvalidRequest, "Send either If-Match or If-None-Match, not both.")
	case none != "" && (!createToo || strings.TrimSpace(none) != "*"):
		return condition{}, newProblem(codeInvalidRequest, "If-None-Match may only be * with PUT, to create.")
	case none != "":
		return condition{create: true}, nil
	case match == "":
		help := preconditionHelp + "."
		if createToo {
			help = preconditionHelp + ", or If-None-Match: * to create."
		}
		return condition{}, newProblem(codeRequired, help)
	case strings.TrimSpace(match) == "*":
		return condition{any: true}, nil
	}
	var first uint64
	for i, tag := range strings.Split(match, ",") {
		revision, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(tag), `"`), 10, 64)
		if err != nil || revision == 0 {
			return condition{}, newProblem(codeInvalidRequest, fmt.Sprintf(`If-Match %.40q is not an ETag of this API, such as "42".`, tag))
		}
		if i == 0 || revision == current {
			first = revision
		}
	}
	return condition{revision: first}, nil
}

// check judges the condition against what this node knows, which a dry run relies on; for a real
// write the state judges again.
func (w condition) check(kind policy.Kind, name string, r *policy.Resource) *Problem {
	switch {
	case w.create && r != nil:
		return newProblem(codePrecondition, fmt.Sprintf("%s %q exists already, at revision %d.", kind, name, r.Metadata.Revision))
	case !w.create && r == nil:
		return notFound(kind, name)
	case w.revision != 0 && r.Metadata.Revision != w.revision:
		return newProblem(codePrecondition, fmt.Sprintf("%s %q is at revision %d, not %d. Read it again, and send its ETag as If-Match.", kind, name, r.Metadata.Revision, w.revision))
	}
	return nil
}

func notFound(kind policy.Kind, name string) *Problem {
	return newProblem(codeNotFound, fmt.Sprintf("There is no %s %.128q.", kind, name))
}
