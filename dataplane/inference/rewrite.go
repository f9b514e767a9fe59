package inference

import (
	"encoding/json"
	"slices"
	"strconv"
)

const (
	withUsage       = `{"include_usage":true}`
	withUsageMember = `"include_usage":true`
)

// Rewrite returns the body with another model name and, for a stream of a shape that sends usage
// only when asked ([Chat], [Completions]), with stream_options.include_usage set if wantUsage. Where
// that was not set, vLLM and SGLang pass over continuous_usage_stats, and shall go on to: the client
// doesn't expect usage in each chunk. Everything else stays byte for byte; if nothing changes it is body itself. The body must be the
// one that r was read from.
//
// Most is the most tokens that the answer may have; 0: as many as the client allowed. Where the client allowed more, or
// did not say, it is put in, and never where that would be more than the client asked for. An answer without tokens of its
// own, as embeddings, has no such field.
func (r Request) Rewrite(body []byte, model string, wantUsage bool, most int64) []byte {
	var edits [6]edit
	n := r.capTokens(body, most, edits[:3])
	if model != r.Model {
		quoted, err := json.Marshal(model)
		if err == nil { // a string always marshals
			edits[n] = edit{span{r.ModelAt[0], r.ModelAt[1]}, quoted}
			n++
		}
	}
	if wantUsage && r.Stream && !r.IncludeUsage && (r.API == Chat || r.API == Completions) {
		edits[n] = r.askUsage(body)
		n++
		if r.continuousAt.first(body) == 't' {
			edits[n] = edit{r.continuousAt, []byte("false")}
			n++
		}
	}
	if n == 0 {
		return body
	}
	return splice(body, edits[:n])
}

// capTokens writes the edits, at most three, that bound the answer, and says how many they are.
func (r Request) capTokens(body []byte, most int64, edits []edit) int {
	if most <= 0 || r.API == Embeddings || r.API == Other {
		return 0
	}
	number := []byte(strconv.FormatInt(most, 10))
	n, told, null := 0, false, span{}
	for _, at := range r.tokensAt {
		switch at.first(body) {
		case 0:
			continue
		case 'n':
			null = at
			continue
		}
		told = true
		if asked, err := integer(body, at, ""); err == nil && asked > most {
			edits[n] = edit{at, number}
			n++
		}
	}
	switch {
	case told:
		return n
	case null.to != 0:
		edits[0] = edit{null, number}
		return 1
	}
	name := `"max_tokens":`
	if r.API == Responses {
		name = `"max_output_tokens":`
	}
	in := blank(body, 0) + 1 // the body has a member: the model
	edits[0] = edit{span{in, in}, slices.Concat([]byte(name), number, []byte(","))}
	return 1
}

// edit puts text in the place of a span, which may be empty.
type edit struct {
	at   span
	with []byte
}

func (r Request) askUsage(body []byte) edit {
	switch {
	case r.includeUsageAt.to != 0:
		return edit{r.includeUsageAt, []byte("true")}
	case r.HasStreamOptions:
		in := r.streamOptionsAt.from + 1
		member := withUsageMember
		if body[blank(body, in)] != '}' {
			member += ","
		}
		return edit{span{in, in}, []byte(member)}
	case r.streamOptionsAt.to != 0: // null
		return edit{r.streamOptionsAt, []byte(withUsage)}
	}
	in := blank(body, 0) + 1 // the body has a member: the model
	return edit{span{in, in}, []byte(`"stream_options":` + withUsage + ",")}
}

func splice(body []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.at.from - b.at.from })
	size := len(body)
	for _, e := range edits {
		size += len(e.with) - (e.at.to - e.at.from)
	}
	out := make([]byte, 0, size)
	done := 0
	for _, e := range edits {
		out = append(out, body[done:e.at.from]...)
		out = append(out, e.with...)
		done = e.at.to
	}
	return append(out, body[done:]...)
}
