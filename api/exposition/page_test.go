package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parsed reads a page.
func parsed(page []byte) *Page {
	var r Page
	r.Read(page)
	return &r
}

func TestLoRANewestSeriesWins(t *testing.T) {
	tests := []struct {
		name, page string
		want       []string
	}{
		{"the newest, wherever it stands", `vllm:lora_requests_info{running_lora_adapters="b",waiting_lora_adapters="",max_lora="2"} 2
vllm:lora_requests_info{running_lora_adapters="a",waiting_lora_adapters="",max_lora="2"} 1`, []string{"b"}},
		{"on a tie the one that names adapters", `vllm:lora_requests_info{running_lora_adapters="a",waiting_lora_adapters="",max_lora="2"} 5
vllm:lora_requests_info{running_lora_adapters="",waiting_lora_adapters="",max_lora="2"} 5`, []string{"a"}},
		{"waiting ones count", `vllm:lora_requests_info{running_lora_adapters="a",waiting_lora_adapters="b, c",max_lora="2"} 1.7e9`, []string{"a", "b", "c"}},
		{"an empty newest means none", `vllm:lora_requests_info{running_lora_adapters="a",waiting_lora_adapters="",max_lora="2"} 5
vllm:lora_requests_info{running_lora_adapters="",waiting_lora_adapters="",max_lora="2"} 6`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parsed([]byte(tt.page)).Load(); !slices.Equal(got.Adapters, tt.want) || got.MaxLoRA != 2 {
				t.Errorf("adapters %q of at most %d, want %q", got.Adapters, got.MaxLoRA, tt.want)
			}
		})
	}
}

func TestReadIsNotPutOff(t *testing.T) {
	tests := []struct {
		name, page string
		waiting    float64
		found      bool
	}{
		{"series are summed", "vllm:num_requests_waiting{engine=\"0\"} 1\nvllm:num_requests_waiting{engine=\"1\"} 2\n", 3, true},
		{"without labels", "vllm:num_requests_waiting 4", 4, true},
		{"with a time stamp", "vllm:num_requests_waiting{a=\"b\"} 4 1700000000000\n", 4, true},
		{"indented, with carriage return", " \tvllm:num_requests_waiting\t5\r\n", 5, true},
		{"label values with anything in them", `vllm:num_requests_waiting{a="} 9 \" \\",b="\n",} 6`, 6, true},
		{"a space before the labels", `vllm:num_requests_waiting {a="b"} 6`, 6, true},
		{"another metric with the same beginning", "vllm:num_requests_waiting_by_reason 9\n", 0, false},
		{"a comment", "# vllm:num_requests_waiting 9\n", 0, false},
		{"no value", "vllm:num_requests_waiting\n", 0, false},
		{"no value after labels", "vllm:num_requests_waiting{a=\"b\"}\n", 0, false},
		{"labels that don't end", "vllm:num_requests_waiting{a=\"b 9\n", 0, false},
		{"labels without quotes", "vllm:num_requests_waiting{a=b} 9\n", 0, false},
		{"not a number", "vllm:num_requests_waiting NaN\n", 0, false},
		{"not a number at all", "vllm:num_requests_waiting many\n", 0, false},
		{"negative", "vllm:num_requests_waiting -1\n", 0, false},
		{"infinite", "vllm:num_requests_waiting +Inf\n", 0, false},
		{"an HTML page", "<html><body>vllm:num_requests_waiting 5</body></html>", 0, false},
		{"nothing", "", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parsed([]byte(tt.page))
			if got.sums[waiting] != tt.waiting || got.found[waiting] != tt.found {
				t.Errorf("waiting = %v, found %v; want %v, %v", got.sums[waiting], got.found[waiting], tt.waiting, tt.found)
			}
		})
	}
}

// A gateway says exactly 1 when its pool is empty or its signals are old, too.
func TestSaturationOfExactlyOne(t *testing.T) {
	pool := "llm_d_epp_ready_endpoints{name=\"p\"} 2\nllm_d_epp_flow_control_pool_saturation{stage=\"effective\"} "
	tests := []struct {
		name, page string
		want       float64
	}{
		{"with nothing queued isn't believed", pool + "1", -1},
		{"with a queue is", pool + "1\nllm_d_epp_average_queue_size{name=\"p\"} 3", 1},
		{"more than one is believed", pool + "1.4", 1.4},
		{"another stage is another thing", "llm_d_epp_ready_endpoints 2\nllm_d_epp_flow_control_pool_saturation{stage=\"raw\"} 0.5", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parsed([]byte(tt.page)).Load().Saturation; got != tt.want {
				t.Errorf("saturation %v, want %v", got, tt.want)
			}
		})
	}
}

// slowRead sums a gauge the way the standard parser sees it. Of a series that is there twice the
// first counts, and labels without a value are as good as none.
func slowRead(page []byte, name string) (sum float64, ok bool) {
	parser := expfmt.NewTextParser(model.LegacyValidation) // with names in quotes it reads what is no name
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return 0, false
	}
	seen := map[string]bool{}
	for _, m := range families[name].GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			if l.GetValue() != "" {
				labels = append(labels, fmt.Sprintf("%q=%q", l.GetName(), l.GetValue()))
			}
		}
		slices.Sort(labels)
		id := strings.Join(labels, ",")
		if seen[id] {
			continue
		}
		seen[id] = true
		// It is one of the three, and the others' value is 0.
		v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
		if !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0 {
			sum += v
		}
	}
	return sum, true
}

// FuzzMetrics: no page makes the scanner panic or read nonsense, and where the standard parser
// accepts a page, both read the same.
func FuzzMetrics(f *testing.F) {
	for _, name := range expositions(f) {
		f.Add(page(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := parsed(b)
		for s, v := range got.sums {
			if math.IsNaN(v) || v < 0 {
				t.Fatalf("signal %d is %v", s, v)
			}
		}
		var pieces Page
		if _, err := pieces.ReadFrom(bytes.NewReader(b)); err != nil && !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		if len(b) < maxLine && !reflect.DeepEqual(pieces.Load(), got.Load()) {
			t.Fatalf("read in pieces %+v, at once %+v", pieces.Load(), got.Load())
		}
		for name, signal := range map[string]signal{"vllm:num_requests_waiting": waiting, "tgi_batch_current_size": running} {
			alone := keep(b, name)
			want, ok := slowRead(alone, name)
			if !ok {
				continue
			}
			if got := parsed(alone).sums[signal]; got != want {
				t.Fatalf("%s = %v, the standard parser says %v, of\n%s", name, got, want, alone)
			}
		}
	})
}

// keep leaves the lines of a page that begin with a name.
func keep(page []byte, name string) []byte {
	var out []byte
	for line := range bytes.Lines(page) {
		if bytes.HasPrefix(line, []byte(name)) {
			out = append(out, line...)
		}
	}
	return out
}

func BenchmarkRead(b *testing.B) {
	whole := page(b, "vllm.prom")
	for i := 0; len(whole) < 100<<10; i++ {
		whole = fmt.Appendf(whole, "vllm:request_prompt_tokens_bucket{engine=\"0\",le=\"%d\",model_name=\"llama-3.1-8b\"} 117.0\n", i)
	}
	b.SetBytes(int64(len(whole)))
	b.ReportAllocs()
	var r Page
	for b.Loop() {
		r.Read(whole)
	}
}

// What comes piece by piece is read as what is there at once, but for lines that are longer than any
// that is wanted.
func TestAPageThatIsStillComing(t *testing.T) {
	var p Page
	for _, name := range expositions(t) {
		whole := page(t, name)
		if n, err := p.ReadFrom(iotest.OneByteReader(bytes.NewReader(whole))); err != nil || n != int64(len(whole)) {
			t.Fatalf("%s: %d bytes, %v", name, n, err)
		}
		if got, want := p.Load(), parsed(whole).Load(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	long := "tgi_queue_size{a=\"" + strings.Repeat("x", maxLine) + "\"} 5\n"
	_, err := p.ReadFrom(strings.NewReader("tgi_queue_size 1\n" + long + "tgi_batch_current_size 2"))
	if got := p.Load(); err != nil || got.Waiting != 1 || got.Running != 2 {
		t.Errorf("%v waiting, %v running, %v", got.Waiting, got.Running, err)
	}
	if _, err := p.ReadFrom(strings.NewReader(long[:maxLine+5])); err != nil || p.Known() {
		t.Errorf("the end of a line that was dropped: known %v, %v", p.Known(), err)
	}
}

func TestAPageThatIsTooLargeOrBreaksOff(t *testing.T) {
	var p Page
	if n, err := p.ReadFrom(strings.NewReader(strings.Repeat("x 1\n", MaxBytes/4))); err != nil || n != MaxBytes {
		t.Errorf("a page as large as may be: %d bytes, %v", n, err)
	}
	for _, text := range []string{strings.Repeat("x 1\n", MaxBytes/4) + "x", strings.Repeat("x", MaxBytes+1)} {
		if n, err := p.ReadFrom(strings.NewReader(text)); !errors.Is(err, ErrTooLarge) || n > MaxBytes+maxLine {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	broken := errors.New("broken")
	if _, err := p.ReadFrom(io.MultiReader(strings.NewReader("tgi_queue_size 1\ntgi_"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// A load stays as it is when the page that it is of is read into again.
func TestALoadIsItsOwn(t *testing.T) {
	var p Page
	p.Read(page(t, "vllm-lora.prom"))
	first := p.Load()
	before := first.text()
	p.Read([]byte(strings.ReplaceAll(string(page(t, "vllm-lora.prom")), "lora", "xxxx")))
	if first.text() != before {
		t.Errorf("now\n%s\nwas\n%s", first.text(), before)
	}
}
