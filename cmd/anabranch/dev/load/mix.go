package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// request is one call, ready to send.
type request struct {
	region, url, key, session string
	body                      []byte
	stream                    bool
}

// talk is one conversation: a tenant's user in one region, with one model.
type talk struct {
	id            string
	router        Router
	tenant, model string
	turns         []message
	request       request
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// maxTurns ends a conversation, in messages with the system prompt: prompts grow to about 2,000
// tokens, as chats do.
const maxTurns = 12

// model is a name that requests ask for, and its share of them.
type model struct {
	name  string
	share float64
}

// Adapters belong to the small model.
var models = []model{{"llama-3.1-8b", 0.60}, {"support-lora", 0.15}, {"legal-lora", 0.10}, {"llama-3.1-70b", 0.15}}

// mix draws the next request. It keeps conversations whose last answer has come, and starts a new
// one when none waits in the drawn region.
type mix struct {
	options Options
	tenants []string

	mu    sync.Mutex // guards what follows
	rnd   *rand.Rand
	idle  map[string][]*talk // by region
	count int
}

func newMix(o Options) *mix {
	return &mix{
		options: o, tenants: slices.Sorted(maps.Keys(o.Keys)),
		rnd: rand.New(rand.NewPCG(o.Seed, 2)), idle: map[string][]*talk{},
	}
}

// next draws a region, then goes on with a waiting conversation there in three of four cases.
func (m *mix) next() *talk {
	m.mu.Lock()
	defer m.mu.Unlock()
	router := m.options.Routers[m.rnd.IntN(len(m.options.Routers))]
	var t *talk
	if waiting := m.idle[router.Region]; len(waiting) > 0 && m.rnd.Float64() < 0.75 {
		i := m.rnd.IntN(len(waiting))
		t = waiting[i]
		m.idle[router.Region] = slices.Delete(waiting, i, i+1)
	} else {
		t = m.begin(router)
	}
	t.turns = append(t.turns, message{"user", words(m.rnd, 20+m.rnd.IntN(60))})
	t.request = m.write(t)
	return t
}

// begin starts a conversation over one of four system prompts for its tenant and model.
func (m *mix) begin(router Router) *talk {
	m.count++
	t := &talk{id: fmt.Sprintf("load-%d-%d", m.options.Seed, m.count), router: router}
	t.tenant = m.tenants[weighted(m.rnd, len(m.tenants), func(i int) float64 {
		if w, ok := m.options.Shares[m.tenants[i]]; ok {
			return w
		}
		return 1
	})]
	t.model = models[weighted(m.rnd, len(models), func(i int) float64 { return models[i].share })].name
	topic := m.rnd.IntN(4)
	prompt := words(rand.New(rand.NewPCG(uint64(topic), 3)), 300)
	t.turns = []message{{"system", fmt.Sprintf("You are assistant %d of %s for %s. %s", topic, t.tenant, t.model, prompt)}}
	return t
}

func (m *mix) write(t *talk) request {
	stream := m.rnd.Float64() < m.options.StreamRatio
	body, err := json.Marshal(map[string]any{
		"model": t.model, "messages": t.turns, "stream": stream, "max_tokens": 16 + m.rnd.IntN(80),
	})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return request{
		region: t.router.Region, url: t.router.URL + "/v1/chat/completions",
		key: m.options.Keys[t.tenant], session: t.id, body: body, stream: stream,
	}
}

// done gives a conversation back with its answer; one that failed, or has said all, ends.
func (m *mix) done(t *talk, r Result) {
	if r.Outcome != OK || len(t.turns)+2 > maxTurns {
		return
	}
	t.turns = append(t.turns, message{"assistant", r.text})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle[t.router.Region] = append(m.idle[t.router.Region], t)
}

// weighted draws an index below n in proportion to weight; all weights 0: evenly.
func weighted(rnd *rand.Rand, n int, weight func(int) float64) int {
	var sum float64
	for i := range n {
		sum += weight(i)
	}
	if sum == 0 {
		return rnd.IntN(n)
	}
	at := rnd.Float64() * sum
	for i := range n {
		if at -= weight(i); at < 0 {
			return i
		}
	}
	return n - 1
}

var vocabulary = strings.Fields(`river stream bank ferry delta flood bridge water stone market harbour
	order invoice refund parcel contract clause notice period tenant landlord court claim answer question
	please explain compare list when where which why how summary example reason cost price summer winter`)

func words(rnd *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(vocabulary[rnd.IntN(len(vocabulary))])
	}
	return b.String()
}
