package inference

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// whiteSpace is what chat templates trim.
const whiteSpace = " \t\r\n"

// Tail is the white space at the end of text, which [Request.Continuation] leaves out, since many
// chat templates trim the last message. The model then writes it again: what continues an answer
// that has been sent must be passed on without as much of it as it begins with.
func Tail(text string) string { return text[len(strings.TrimRight(text, whiteSpace)):] }

// Continuation is a body that makes a self-hosted model server go on with an answer of which text,
// spent tokens long, has been sent: the text stands as the assistant's last message, open at its
// end. vLLM and SGLang know this as continue_final_message; vLLM wants add_generation_prompt to be
// false with it, and SGLang ignores that. Limits on the answer's length are lowered by spent. The
// body is that of r or what [Request.Rewrite] made of it. False: the request doesn't allow it. Only
// one answer of plain text to a chat can be continued: tools, structured output and the like have
// a state that text alone doesn't tell.
func (r Request) Continuation(body []byte, text string, spent int64) ([]byte, bool) {
	text = strings.TrimSuffix(text, Tail(text))
	if r.API != Chat || r.Choices != 1 || text == "" || spent < 0 || check(body) != nil {
		return nil, false
	}
	start := blank(body, 0)
	if body[start] != '{' {
		return nil, false
	}
	said, err := json.Marshal(text)
	if err != nil { // a string always marshals
		return nil, false
	}
	found := map[string]span{} // of a name that is there twice the last counts
	for k, v := range members(body, start) {
		found[k.text(body)] = v
	}
	if !continuable(body, found) {
		return nil, false
	}
	messages := found["messages"]
	end := messages.to - 1
	edits := []edit{{span{end, end}, slices.Concat([]byte(`,{"role":"assistant","content":`), said, []byte("}"))}}
	for _, flag := range [...]struct{ name, value string }{{"continue_final_message", "true"}, {"add_generation_prompt", "false"}} {
		if at, ok := found[flag.name]; ok {
			edits = append(edits, edit{at, []byte(flag.value)})
			continue
		}
		in := start + 1
		edits = append(edits, edit{span{in, in}, []byte(strconv.Quote(flag.name) + ":" + flag.value + ",")})
	}
	for _, name := range [...]string{"max_tokens", "max_completion_tokens", "min_tokens"} {
		at := found[name]
		if empty(body, at) {
			continue
		}
		n, err := integer(body, at, name)
		left := n - spent
		if err != nil || left <= 0 && name != "min_tokens" {
			return nil, false
		}
		edits = append(edits, edit{at, strconv.AppendInt(nil, max(left, 0), 10)})
	}
	return splice(body, edits), true
}

// continuable says whether the members of a chat request ask for one answer of plain text to
// somebody else's message.
func continuable(b []byte, found map[string]span) bool {
	for _, name := range [...]string{
		"tools", "functions", // answers may be calls
		"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", // grammars of vLLM
		"regex", "ebnf", "structural_tag", // and of SGLang
	} {
		if !empty(b, found[name]) {
			return false
		}
	}
	if at := found["response_format"]; at.first(b) != 0 && at.first(b) != 'n' && !isText(b, at) {
		return false
	}
	for _, not := range [...]struct {
		name  string
		value byte
	}{{"echo", 't'}, {"use_beam_search", 't'}, {"continue_final_message", 't'}, {"add_generation_prompt", 'f'}} {
		if found[not.name].first(b) == not.value {
			return false
		}
	}
	if n, err := integer(b, found["best_of"], "best_of"); err != nil || n > 1 {
		return false
	}
	at := found["messages"]
	if at.first(b) != '[' {
		return false
	}
	var last span
	for e := range elements(b, at.from) {
		last = e
	}
	if last.first(b) != '{' {
		return false
	}
	var role span
	for k, v := range members(b, last.from) {
		if k.is(b, "role") {
			role = v
		}
	}
	return role.first(b) == '"' && !role.is(b, "assistant")
}

// isText says whether a response_format asks for nothing special.
func isText(b []byte, at span) bool {
	if at.first(b) != '{' {
		return false
	}
	var kind span
	for k, v := range members(b, at.from) {
		if k.is(b, "type") {
			kind = v
		}
	}
	return kind.first(b) == '"' && kind.is(b, "text")
}
