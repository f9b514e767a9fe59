package collect

import (
	"testing"

	"anabranch/api/exposition"
	"anabranch/controlplane/signal"
)

func TestWhatAPageMakesOfASource(t *testing.T) {
	for _, tt := range []struct {
		name, page string
		want       signal.Source
	}{
		{
			"a pool: means are summed, and it is as full as its queue",
			poolPage,
			signal.Source{Scraped: true, Total: 4, Ready: 4, Waiting: 8, Running: 32, KVUsage: 0.5, Saturation: 0.5 / fullKV},
		},
		{
			"a pool that says how full it is",
			poolPage + "llm_d_epp_flow_control_pool_saturation{stage=\"effective\"} 0.3\n",
			signal.Source{Scraped: true, Total: 4, Ready: 4, Waiting: 8, Running: 32, KVUsage: 0.5, Saturation: 0.3},
		},
		{
			"an older pool",
			"inference_pool_ready_pods 2\ninference_pool_average_queue_size 10\ninference_pool_average_kv_cache_utilization 0.1\n",
			signal.Source{Scraped: true, Total: 2, Ready: 2, Waiting: 20, KVUsage: 0.1, Saturation: 2},
		},
		{
			"a pool with nothing ready is full, and not as idle as its frozen means",
			"llm_d_epp_ready_endpoints 0\nllm_d_epp_average_queue_size 0\nllm_d_epp_average_kv_cache_utilization 0.3\n",
			signal.Source{Scraped: true, Total: 1, Ready: 0, Saturation: 1},
		},
		{
			"a model server",
			serverPage,
			signal.Source{Scraped: true, Total: 1, Ready: 1, Waiting: 3, Running: 5, KVUsage: 0.2, Saturation: 0.6},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p exposition.Page
			p.Read([]byte(tt.page))
			var got signal.Source
			fill(&got, p.Load(), true)
			if got != tt.want {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
	// What was known before an answer without a page is not carried on.
	got := signal.Source{Scraped: true, Total: 9, Ready: 9, Waiting: 7, Saturation: 3}
	if fill(&got, exposition.Load{}, false); got != (signal.Source{Total: 1, Ready: 1}) {
		t.Errorf("only known to answer: %+v", got)
	}
}

func TestOptionsThatAreMissing(t *testing.T) {
	whole := newWorld(t, newWire(), nil).o
	for name, drop := range map[string]func(*Options){
		"Node":    func(o *Options) { o.Node = "" },
		"View":    func(o *Options) { o.View = nil },
		"Changed": func(o *Options) { o.Changed = nil },
		"Signals": func(o *Options) { o.Signals = nil },
	} {
		o := whole
		drop(&o)
		if _, err := New(o); err == nil {
			t.Errorf("without %s there is no error", name)
		}
	}
	if _, err := New(whole); err != nil {
		t.Error(err)
	}
	if _, err := New(whole); err == nil {
		t.Error("metrics were registered twice without an error")
	}
}
