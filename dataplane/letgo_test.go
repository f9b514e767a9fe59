package dataplane

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"anabranch/api/routerpb"
)

// A long prompt is not held for as long as its answer takes, unless the answer may have to be continued.
func TestALongBodyIsHeldUntilItsAnswerBegins(t *testing.T) {
	for name, rescue := range map[string]bool{"not kept": false, "kept for a rescue": true} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				send(w, role, content)
				select {
				case <-release:
				case <-r.Context().Done():
				}
				send(w, finish, counted, done)
			})
			w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, func(pb *routerpb.Table) {
				pb.Classes[0].Rescue, pb.Classes[0].StallMs = rescue, 20_000
			})
			n := w.routers[us]
			body := strings.Replace(askStream, "hello", strings.Repeat("word ", firstPiece), 1)
			q, err := http.NewRequest(http.MethodPost, n.front.URL+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer acme-key")
			res, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			lines := bufio.NewReader(res.Body)
			if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
				t.Fatalf("%q %v", line, err)
			}
			if held := n.bodies.held.Load(); (held > 0) != rescue {
				t.Errorf("%d bytes are held while the stream is open", held)
			}
			close(release)
			if rest, err := io.ReadAll(lines); err != nil || !strings.HasSuffix(string(rest), done) {
				t.Errorf("%q %v", rest, err)
			}
			w.eventually("nothing is held", func() bool { return n.bodies.held.Load() == 0 })
			if got := s.body.Load(); len(*got) < len(body) {
				t.Errorf("the place got %d bytes of %d", len(*got), len(body))
			}
		})
	}
}
