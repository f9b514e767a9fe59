package endpoint

import "maps"

// signal is what a metric of some model server or endpoint picker means to us.
type signal uint8

const (
	waiting        signal = iota + 1 // requests queued
	running                          // requests in the batch
	kvUsage                          // share 0..1
	loraInfo                         // labels tell of adapters; the value is when
	tokensOut                        // tokens generated, a counter
	poolReady                        // endpoints ready
	poolWaiting                      // mean over the pool's ready endpoints
	poolRunning                      // likewise
	poolKV                           // likewise
	poolSaturation                   // load over capacity as the gateway sees it
)

// rule maps one metric. Of several series sums are taken, but of shares the largest.
type rule struct {
	signal signal
	label  string // only series whose label has the value count; "": all
	value  string
}

// The metrics of model servers. The names of all servers differ, so one table does for all.
//
//	vLLM          vllm/v1/metrics/loggers.py; gpu_cache_usage_perc is older
//	SGLang        its documentation's list of production metrics
//	trtllm-serve  TensorRT-LLM's Prometheus metrics
//	Triton        the TensorRT-LLM backend's custom metrics
//	TGI           its documentation's list of metrics
var servers = map[string][]rule{
	"vllm:num_requests_waiting":    {{signal: waiting}},
	"vllm:num_requests_running":    {{signal: running}},
	"vllm:kv_cache_usage_perc":     {{signal: kvUsage}},
	"vllm:gpu_cache_usage_perc":    {{signal: kvUsage}},
	"vllm:lora_requests_info":      {{signal: loraInfo}},
	"vllm:generation_tokens_total": {{signal: tokensOut}},

	"sglang:num_queue_reqs":          {{signal: waiting}},
	"sglang:num_running_reqs":        {{signal: running}},
	"sglang:token_usage":             {{signal: kvUsage}},
	"sglang:generation_tokens_total": {{signal: tokensOut}},

	"trtllm_num_requests_waiting": {{signal: waiting}},
	"trtllm_num_requests_running": {{signal: running}},
	"trtllm_kv_cache_utilization": {{signal: kvUsage}},

	"nv_trt_llm_request_metrics":        {{waiting, "request_type", "waiting"}, {running, "request_type", "scheduled"}},
	"nv_trt_llm_kv_cache_block_metrics": {{kvUsage, "kv_cache_block_type", "fraction"}},

	"tgi_queue_size":         {{signal: waiting}},
	"tgi_batch_current_size": {{signal: running}},
}

// Pool metrics of the endpoint picker of the Gateway API Inference Extension and of llm-d, by
// their names after a prefix, of which there are several generations.
var (
	poolPrefixes = []string{"llm_d_epp_", "inference_pool_", "inference_extension_"}
	pools        = map[string][]rule{
		"ready_endpoints":              {{signal: poolReady}},
		"ready_pods":                   {{signal: poolReady}},
		"average_queue_size":           {{signal: poolWaiting}},
		"average_running_requests":     {{signal: poolRunning}},
		"average_kv_cache_utilization": {{signal: poolKV}},
		"flow_control_pool_saturation": {{poolSaturation, "stage", "effective"}},
	}
)

// wanted is all of them by full name.
var wanted = func() map[string][]rule {
	all := maps.Clone(servers)
	for _, prefix := range poolPrefixes {
		for name, rules := range pools {
			all[prefix+name] = rules
		}
	}
	return all
}()
