package dataplane

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the fault card of testdata as it is now")

const cardHead = `What goes wrong at the place that a request goes to first, and what comes of it.

  asked     what the client asks for: a stream, or an answer that comes whole; either: it makes no difference
  help      the other place that could answer: there is none, it is one beside the place at fault, or the
            place at fault is in another region behind a peer and the help is here
  client    what the client gets: its status; of an answer how much, from which cluster, after how many
            attempts; of an error the code, who it is from, and when to come back; if the connection was
            aborted in the end, so that nobody takes the answer for whole
  upstream  what became of the request at the place at fault: cancelled is within three times the bound
            that holds, or at once where none does
  attempts  as counted: cluster, kind and outcome; behind the bar by the peer
  request   as counted: the cluster that served, status and code, and whether it is one that failed
  then      who answers the next request when the fault is over; or the place is ejected, and who does
  charged   requests, input tokens, output tokens

`

// cardLine is one line of the card.
type cardLine struct {
	fault, asked, help                                 string
	client, upstream, attempts, request, then, charged string
}

// TestFaultCard plays every fault from the client's and the upstream's side, and compares what comes
// of it with the card in testdata.
func TestFaultCard(t *testing.T) {
	t.Parallel()
	var lines []*cardLine
	plays := make(chan func(), 6*len(faults))
	for i := range faults {
		f := &faults[i]
		for _, help := range []string{"none", "beside", "peer"} {
			for _, asked := range []string{"streamed", "whole"} {
				if f.asked != "" && f.asked != asked || f.help != "" && !strings.Contains(f.help, help) {
					continue
				}
				l := &cardLine{fault: f.name, asked: asked, help: help}
				lines = append(lines, l)
				plays <- func() { t.Run(f.name+", "+asked+", "+help, func(t *testing.T) { f.play(t, l) }) }
			}
		}
	}
	close(plays)
	var all sync.WaitGroup
	for range 4 { // most of what they do is to wait
		all.Go(func() {
			for play := range plays {
				play()
			}
		})
	}
	all.Wait()
	if slices.ContainsFunc(lines, func(l *cardLine) bool { return l.charged == "" }) {
		return // not all were asked for, or went so far
	}
	got := card(lines)
	t.Log("\n" + got)
	path := filepath.Join("testdata", "faultcard.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("not what %s says:\n%s", path, differing(string(want), got))
	}
}

// card is the lines as people read them.
func card(lines []*cardLine) string {
	rows := [][]string{{"asked", "help", "client", "upstream", "attempts", "request", "then", "charged"}}
	names := []string{""}
	for i := 0; i < len(lines); i++ {
		l := *lines[i]
		if i+1 < len(lines) {
			other := *lines[i+1]
			other.asked = l.asked
			if other == l {
				l.asked = "either"
				i++
			}
		}
		rows = append(rows, []string{l.asked, l.help, l.client, l.upstream, l.attempts, l.request, l.then, l.charged})
		names = append(names, l.fault)
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	b.WriteString(cardHead)
	for i, row := range rows {
		if i > 0 && names[i] != names[i-1] {
			b.WriteString("\n" + names[i] + "\n")
		}
		text := ""
		for j, cell := range row {
			text += fmt.Sprintf("  %-*s", widths[j], cell)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return b.String()
}

// differing is the lines that only one of two texts has.
func differing(want, got string) string {
	var b strings.Builder
	only := func(mark, of, other string) {
		there := map[string]bool{}
		for l := range strings.SplitSeq(other, "\n") {
			there[strings.Join(strings.Fields(l), " ")] = true
		}
		name := ""
		for l := range strings.SplitSeq(of, "\n") {
			words := strings.Join(strings.Fields(l), " ")
			if !strings.HasPrefix(l, " ") {
				name = l
			}
			if !there[words] {
				fmt.Fprintf(&b, "%s %s: %s\n", mark, name, words)
			}
		}
	}
	only("-", want, got)
	only("+", got, want)
	return cmp.Or(b.String(), "only the space between columns differs")
}
