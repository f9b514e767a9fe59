package e2e

import (
	"fmt"
	"strings"
	"sync"
)

// placeLevers are those of the journey through regions, clusters and endpoints.
func (s *System) placeLevers() levers {
	return levers{
		// learn streams answers to long prompts that no cache holds, some at a time, from which routers learn how fast
		// endpoints are, and gives how many came.
		"learn": lever(func(arg asked) (any, error) {
			var came sync.WaitGroup
			answers := make([]answer, max(1, min(arg.Count, 200)))
			for first := 0; first < len(answers); first += 8 {
				for i := first; i < min(first+8, len(answers)); i++ {
					came.Go(func() {
						body := chat(arg.Model, true)
						body["messages"] = []map[string]string{{"role": "user", "content": strings.Repeat(fmt.Sprintf("Branch %d goes round and comes back. ", i), 30+4*i)}}
						answers[i] = s.send(s.t.Context(), arg.Region, s.keys[arg.Tenant], body)
					})
				}
				came.Wait()
			}
			whole := 0
			for _, a := range answers {
				if err := a.whole(); err != nil {
					return nil, err
				}
				whole++
			}
			return whole, nil
		}),
	}
}
