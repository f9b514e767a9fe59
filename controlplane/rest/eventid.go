package rest

import (
	"maps"
	"slices"
	"strings"
)

// maxEventID bounds an id of /v1/events, in bytes, and maxTopics how many topics a stream has.
const (
	maxEventID = 1024
	maxTopics  = 24
)

// cursors say how far each topic of a stream has been told. What stands for a topic only the topic knows.
type cursors map[string]string

// String writes them as the id of an event: a format, and topic=place for each, with commas between.
func (k cursors) String() string {
	var b strings.Builder
	b.WriteByte('1')
	for _, topic := range slices.Sorted(maps.Keys(k)) {
		if k[topic] != "" {
			b.WriteString("," + topic + "=" + k[topic])
		}
	}
	return b.String()
}

// parseCursors reads what String wrote; ok is false for anything else, which is as good as no id: the stream then
// begins anew.
func parseCursors(id string) (k cursors, ok bool) {
	parts := strings.Split(id, ",")
	if len(id) > maxEventID || parts[0] != "1" || len(parts) > maxTopics+1 {
		return nil, false
	}
	k = cursors{}
	for _, part := range parts[1:] {
		topic, place, found := strings.Cut(part, "=")
		if !found || topic == "" || place == "" {
			return nil, false
		}
		k[topic] = place
	}
	return k, k.String() == id
}
