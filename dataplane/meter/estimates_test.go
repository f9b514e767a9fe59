package meter

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestWhatIsSetAsideForAnAnswer(t *testing.T) {
	const tenant, model = "acme", "llama"
	long := func(e *Estimates) { answer(e, tenant, model, 1000, 1, 50) }
	for name, c := range map[string]struct {
		before         func(*Estimates)
		max, choices   int64
		least, atMost  int64
		tenant, choose string
	}{
		"nothing is known":                     {nil, 0, 1, 256, 256, tenant, model},
		"the request allows less":              {nil, 50, 1, 50, 50, tenant, model},
		"the request allows more":              {nil, 5000, 1, 256, 256, tenant, model},
		"long answers are usual":               {long, 0, 1, 900, 1100, tenant, model},
		"long answers, but not this one":       {long, 50, 1, 50, 50, tenant, model},
		"long answers of another tenant":       {long, 0, 1, 256, 256, "globex", model},
		"long answers of another model":        {long, 0, 1, 256, 256, tenant, "qwen"},
		"short answers are usual":              {func(e *Estimates) { answer(e, tenant, model, 3, 1, 50) }, 0, 1, 256, 256, tenant, model},
		"too few to go by":                     {func(e *Estimates) { answer(e, tenant, model, 1000, 1, 15) }, 0, 1, 256, 256, tenant, model},
		"one in twenty is long":                {func(e *Estimates) { mixed(e, tenant, model, 20) }, 0, 1, 256, 256, tenant, model},
		"one in five is long":                  {func(e *Estimates) { mixed(e, tenant, model, 5) }, 0, 1, 3600, 4500, tenant, model},
		"three answers, each as long as usual": {long, 0, 3, 2700, 3300, tenant, model},
		"three answers that are bounded":       {nil, 10, 3, 30, 30, tenant, model},
		"learned from requests for three":      {func(e *Estimates) { answer(e, tenant, model, 3000, 3, 50) }, 0, 1, 900, 1100, tenant, model},
		"a million answers":                    {nil, 10, 1e6, 1280, 1280, tenant, model},
		"no answers":                           {nil, 10, 0, 10, 10, tenant, model},
		"the largest bound":                    {nil, 1 << 31, 1 << 31, 256 * 128, 256 * 128, tenant, model},
		"answers of any length":                {func(e *Estimates) { answer(e, tenant, model, 1<<40, 1, 50) }, 0, 1, longest, longest, tenant, model},
		"requests without answers":             {func(e *Estimates) { answer(e, tenant, model, 0, 1, 50) }, 0, 1, 256, 256, tenant, model},
	} {
		e := NewEstimates()
		if c.before != nil {
			c.before(e)
		}
		if got := e.Output(fleet.TenantID(c.tenant), fleet.ModelID(c.choose), c.max, c.choices); got < c.least || got > c.atMost {
			t.Errorf("%s: %d, want %d to %d", name, got, c.least, c.atMost)
		}
	}
}

// answer lets a tenant get n answers of a model.
func answer(e *Estimates, tenant fleet.TenantID, model fleet.ModelID, tokens, choices int64, n int) {
	for i := range n {
		e.Learn(Seen{Tenant: tenant, Model: model, Completion: tokens, Choices: choices}, epoch.Add(time.Duration(i)*time.Second))
	}
}

// mixed answers are short, but for one of every some.
func mixed(e *Estimates, tenant fleet.TenantID, model fleet.ModelID, every int) {
	for i := range 1000 {
		n := int64(20)
		if i%every == 0 {
			n = 4000
		}
		answer(e, tenant, model, n, 1, 1)
	}
}

func TestBytesOfAToken(t *testing.T) {
	const tenant, model = "acme", "llama"
	prompts := func(bytes int, tokens int64, n int) func(*Estimates) {
		return func(e *Estimates) { prompt(e, tenant, model, bytes, tokens, n) }
	}
	for name, c := range map[string]struct {
		before func(*Estimates)
		bytes  int
		least  int64
		atMost int64
	}{
		"nothing is known":                   {nil, 4000, 1000, 1000},
		"rounded up":                         {nil, 4001, 1001, 1001},
		"an empty prompt":                    {nil, 0, 1, 1},
		"four bytes, exactly":                {prompts(4000, 1000, 20), 4000, 1000, 1000},
		"dense text":                         {prompts(3000, 2000, 20), 3000, 1950, 2050},
		"airy text":                          {prompts(6000, 1000, 20), 6000, 970, 1030},
		"too few to go by":                   {prompts(3000, 2000, 7), 3000, 750, 750},
		"short prompts are mostly template":  {prompts(40, 30, 100), 4000, 1000, 1000},
		"more tokens than bytes":             {prompts(1000, 5000, 20), 1000, 1000, 1000},
		"white space of fifty bytes a token": {prompts(50_000, 1000, 20), 8000, 1000, 1000},
		"a server that counts nothing":       {prompts(4000, 0, 20), 4000, 1000, 1000},
		"one in three is an outlier": {func(e *Estimates) {
			for range 50 {
				prompt(e, tenant, model, 3000, 1000, 2)
				prompt(e, tenant, model, 100_000, 1000, 1)
			}
		}, 3000, 970, 1030},
	} {
		e := NewEstimates()
		if c.before != nil {
			c.before(e)
		}
		if got := e.Input(tenant, model, c.bytes); got < c.least || got > c.atMost {
			t.Errorf("%s: %d tokens, want %d to %d", name, got, c.least, c.atMost)
		}
	}
}

// prompt lets a tenant send n prompts to a model, one a second.
func prompt(e *Estimates, tenant fleet.TenantID, model fleet.ModelID, bytes int, tokens int64, n int) {
	for i := range n {
		e.Learn(Seen{Tenant: tenant, Model: model, PromptBytes: bytes, Prompt: tokens}, epoch.Add(time.Duration(i)*time.Second))
	}
}

// TestNobodyMakesOthersEstimatesWrong lets one tenant send a thousand prompts a second of white space,
// beside nine that send one of ordinary text.
func TestNobodyMakesOthersEstimatesWrong(t *testing.T) {
	e := NewEstimates()
	const model = "llama"
	for second := range 60 {
		for i := range 1000 {
			e.Learn(Seen{Tenant: "mallory", Model: model, PromptBytes: 100_000, Prompt: 1000}, epoch.Add(time.Duration(second)*time.Second+time.Duration(i)*time.Millisecond))
		}
		for i := range 9 {
			e.Learn(Seen{Tenant: fleet.TenantID(fmt.Sprintf("t%d", i)), Model: model, PromptBytes: 4000, Prompt: 1000}, epoch.Add(time.Duration(second)*time.Second))
		}
	}
	for tenant, want := range map[fleet.TenantID]int64{"t3": 1000, "newcomer": 1000, "mallory": 500} {
		if got := e.Input(tenant, model, 4000); got != want {
			t.Errorf("%s: %d tokens, want %d", tenant, got, want)
		}
	}
}

func TestANewcomerIsTakenForOneOfTheModelsUsers(t *testing.T) {
	e := NewEstimates()
	prompt(e, "acme", "qwen", 3000, 1500, 20)
	if got := e.Input("globex", "qwen", 3000); got < 1450 || got > 1550 {
		t.Errorf("%d tokens", got)
	}
	if got := e.Input("globex", "llama", 3000); got != 750 {
		t.Errorf("by another model: %d tokens", got)
	}
}

func TestWhatLeftTheTableIsForgotten(t *testing.T) {
	e := NewEstimates()
	for _, tenant := range []fleet.TenantID{"acme", "globex"} {
		for _, model := range []fleet.ModelID{"llama", "qwen"} {
			answer(e, tenant, model, 1000, 1, 50)
			prompt(e, tenant, model, 3000, 1500, 20)
		}
	}
	if e.count != 6 {
		t.Fatalf("%d cells", e.count)
	}
	e.Keep(func(id fleet.TenantID) bool { return id == "acme" }, func(id fleet.ModelID) bool { return id == "llama" })
	if e.count != 2 {
		t.Errorf("%d cells are left", e.count)
	}
	if got := e.Output("acme", "llama", 0, 1); got < 900 {
		t.Errorf("who stayed: %d", got)
	}
	for _, c := range [][2]string{{"acme", "qwen"}, {"globex", "llama"}, {"globex", "qwen"}} {
		if got := e.Output(fleet.TenantID(c[0]), fleet.ModelID(c[1]), 0, 1); got != LeastOutput {
			t.Errorf("%v: %d", c, got)
		}
	}
	if got := e.Input("acme", "qwen", 3000); got != 750 {
		t.Errorf("the model that left: %d", got)
	}
}

func TestMemoryIsBoundedAndTheNewestStay(t *testing.T) {
	e := NewEstimates()
	for i := range maxCells + maxCells/2 {
		e.Learn(Seen{Tenant: fleet.TenantID(fmt.Sprint(i)), Model: "llama", Completion: 10}, epoch.Add(time.Duration(i)))
	}
	there := 0
	for i := range maxCells + maxCells/2 {
		if e.find(fleet.TenantID(fmt.Sprint(i)), "llama") != nil {
			there++
		} else if i > maxCells {
			t.Fatalf("%d is forgotten", i)
		}
	}
	if there != e.count || e.count > maxCells {
		t.Errorf("%d cells, counted as %d", there, e.count)
	}
}

// TestEstimatesStayInTheirBounds whatever is learned.
func TestEstimatesStayInTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := NewEstimates()
		names := rapid.SampledFrom([]string{"a", "b"})
		for i := range rapid.IntRange(0, 100).Draw(t, "n") {
			e.Learn(Seen{
				Tenant: fleet.TenantID(names.Draw(t, "tenant")), Model: fleet.ModelID(names.Draw(t, "model")),
				PromptBytes: rapid.Int().Draw(t, "bytes"), Prompt: rapid.Int64().Draw(t, "prompt"),
				Completion: rapid.Int64().Draw(t, "completion"), Choices: rapid.Int64().Draw(t, "choices"),
			}, epoch.Add(time.Duration(i)*time.Second))
		}
		bytes := rapid.IntRange(0, 1<<30).Draw(t, "asked bytes")
		if got := e.Input("a", "a", bytes); got < max(1, int64(bytes)/mostPerToken) || got > max(1, int64(bytes)/leastPerToken) {
			t.Fatalf("%d tokens of %d bytes", got, bytes)
		}
		most, choices := rapid.Int64Range(0, 1<<31).Draw(t, "max"), rapid.Int64Range(1, 200).Draw(t, "n")
		got := e.Output("a", "a", most, choices) / min(choices, mostChoices)
		low, high := int64(LeastOutput), int64(longest)
		if most > 0 {
			low, high = min(low, most), min(high, most)
		}
		if got < low || got > high {
			t.Fatalf("%d for each answer, want %d to %d", got, low, high)
		}
	})
}

func TestTopUpsGrow(t *testing.T) {
	for reserved, want := range map[int64]int64{1: 65, 256: 320, 400: 500, 4000: 5000} {
		if got := More(reserved); got != want {
			t.Errorf("after %d: %d, want %d", reserved, got, want)
		}
	}
}

// TestReadingTakesNoMemory and no locks: it goes on while others learn and forget.
func TestReadingTakesNoMemory(t *testing.T) {
	e := NewEstimates()
	answer(e, "acme", "llama", 1000, 1, 50)
	prompt(e, "acme", "llama", 3000, 1500, 20)
	if n := testing.AllocsPerRun(100, func() {
		e.Input("acme", "llama", 4000)
		e.Input("globex", "llama", 4000)
		e.Output("acme", "llama", 0, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReadersLearnersAndForgettingAtOnce(t *testing.T) {
	e := NewEstimates()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 2000 {
				tenant := fleet.TenantID(fmt.Sprint(i % 50))
				switch {
				case g == 0 && i%100 == 0:
					e.Keep(func(id fleet.TenantID) bool { return id < "3" }, func(fleet.ModelID) bool { return true })
				case g < 3:
					e.Learn(Seen{Tenant: tenant, Model: "llama", PromptBytes: 4000, Prompt: 1000, Completion: 100}, epoch.Add(time.Duration(i)*time.Second))
				default:
					if got := e.Input(tenant, "llama", 4000); got != 1000 {
						t.Errorf("%d tokens", got)
					}
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkEstimates(b *testing.B) {
	e := NewEstimates()
	for i := range 10_000 {
		answer(e, fleet.TenantID(fmt.Sprintf("tenant-%d", i)), "llama-3.1-8b", 1000, 1, 1)
	}
	answer(e, "acme", "llama-3.1-8b", 1000, 1, 50)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Output("acme", "llama-3.1-8b", 0, 1)
		}
	})
	b.Run("learn", func(b *testing.B) {
		b.ReportAllocs()
		now := epoch
		for b.Loop() {
			now = now.Add(time.Millisecond)
			e.Learn(Seen{Tenant: "acme", Model: "llama-3.1-8b", PromptBytes: 4000, Prompt: 1000, Completion: 300}, now)
		}
	})
}
