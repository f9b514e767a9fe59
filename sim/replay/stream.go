package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"time"
)

// maxEvent bounds a line of a stream.
const maxEvent = 1 << 20

// chunk is an event of a chat or of a completion, as far as it matters.
type chunk struct {
	apiError
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content          string          `json:"content"`
			Reasoning        string          `json:"reasoning"`
			ReasoningContent string          `json:"reasoning_content"`
			ToolCalls        json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          *struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// content says that the event brings something of the answer.
func (c *chunk) content() bool {
	for i := range c.Choices {
		d := &c.Choices[i].Delta
		if c.Choices[i].Text != "" || d.Content != "" || d.Reasoning != "" || d.ReasoningContent != "" || len(d.ToolCalls) > 2 && string(d.ToolCalls) != "null" {
			return true
		}
	}
	return false
}

// readStream reads server-sent events to their end and notes when content came. It returns the code
// of the record.
func readStream(body io.Reader, rec *Record, now func() time.Duration) string {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4<<10), maxEvent)
	pieces := 0
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return ""
		}
		var c chunk
		if json.Unmarshal(data, &c) != nil {
			return CodeMalformed
		}
		if code, failed := c.name(); failed {
			return code
		}
		if c.content() {
			pieces++
			at := now()
			if rec.First == 0 {
				rec.First = at
			} else {
				rec.MaxGap = max(rec.MaxGap, at-rec.Last)
			}
			rec.Last = at
			rec.OutputTokens = max(rec.OutputTokens, pieces)
		}
		if u := c.Usage; u != nil {
			rec.PromptTokens, rec.OutputTokens = max(u.PromptTokens, 0), max(u.CompletionTokens, 0)
			if u.Details != nil {
				rec.CachedTokens = max(u.Details.CachedTokens, 0)
			}
		}
	}
	return CodeBroken
}
