package inference

// Classify is [Classify] for the data of this stream's events, and faster where an event differs
// from the one before only in its text, as most chunks of an answer do.
func (e *Events) Classify(data []byte) Frame {
	if f, ok := e.like.frame(data); ok {
		return f
	}
	f := Classify(data)
	e.like.learn(data, f)
	return f
}

// likeness remembers what stood around the text of an event. Data with the same around another
// string says the same, since what it says depends on the text only in whether there is any.
type likeness struct {
	head, tail []byte // quotes included; an empty head: nothing is known
	known      Frame
}

// longestLikeness bounds what is remembered, in bytes; chunks of model servers have some hundred.
const longestLikeness = 1 << 10

func (l *likeness) forget() { l.head = l.head[:0] }

// learn remembers a frame that has text with all other places before it.
func (l *likeness) learn(data []byte, f Frame) {
	l.forget()
	from := f.text.from
	if f.text.to == 0 || len(data) > longestLikeness || f.ID[1] > from || f.Created[1] > from || f.Model[1] > from {
		return
	}
	l.head = append(l.head, data[:from+1]...)
	l.tail = append(l.tail[:0], data[f.text.to-1:]...)
	l.known = f
}

func (l *likeness) frame(data []byte) (Frame, bool) {
	head, tail := len(l.head), len(data)-len(l.tail)
	if head == 0 || tail <= head || string(data[:head]) != string(l.head) || string(data[tail:]) != string(l.tail) {
		return Frame{}, false
	}
	// The string must end where the tail begins.
	if end, _ := quoted(data, head-1); end != tail+1 {
		return Frame{}, false
	}
	f := l.known
	f.text.to = tail + 1
	return f, true
}
