package exposition

import "slices"

// signal is what a metric of some model server or endpoint picker means to us.
type signal uint8

const (
	waiting        signal = iota // requests queued
	running                      // requests in the batch
	kvUsage                      // share 0..1
	kvTokens                     // tokens that the KV cache has room for
	kvBlocks                     // of the KV cache
	blockTokens                  // tokens of a block
	maxBatch                     // requests that the batch takes
	tokensOut                    // tokens generated, a counter
	prefixAsked                  // prompt tokens looked up in the prefix cache, a counter
	prefixFound                  // of these, found; a counter
	loraInfo                     // labels tell of adapters; the value is when
	poolReady                    // endpoints ready
	poolWaiting                  // mean over the pool's ready endpoints
	poolRunning                  // likewise
	poolKV                       // likewise
	poolHeld                     // requests that the picker itself holds back
	poolSaturation               // load over capacity as the gateway sees it
	poolStale                    // endpoints whose signals the picker finds too old
	signals                      // how many there are
)

// largest says of which signals the largest series counts, and not the sum: shares, and what is the
// same for all engines of a page.
var largest = [signals]bool{kvUsage: true, blockTokens: true, poolKV: true, poolSaturation: true, poolStale: true}

// rule is what one metric means.
type rule struct {
	signal signal
	// where: only series that fit all of these count. Nil: all.
	where []match
	// from is the label whose value is meant. Empty: the series' value.
	from string
	// older ranks generations of names: of several on one page, as servers write them while they
	// rename, the lowest counts.
	older uint8
}

// match wants a label to have one of the values; "" stands for a series without the label, too.
type match struct {
	label  string
	values []string
}

func is(label string, values ...string) []match { return []match{{label, values}} }

// A dialect is the metrics of one kind of server, by name.
type dialect map[string][]rule

// total of SGLang's requests: with priority scheduling there are series for each priority beside it.
var total = is("priority", "")

// dialects of model servers. Their names differ, so that one table does for all.
//
//	vLLM          vllm/v1/metrics/loggers.py. gpu_* is older, and was written beside the new for a while
//	SGLang        python/sglang/srt/metrics/collector.py
//	trtllm-serve  tensorrt_llm/metrics/collector.py
//	Triton        the TensorRT-LLM backend's custom metrics
//	plain Triton  its user guide's list of metrics; exec_count counts, and shows progress
//	TGI           its documentation's list of metrics
var dialects = []dialect{
	{
		"vllm:num_requests_waiting": {{signal: waiting}},
		"vllm:num_requests_running": {{signal: running}},
		"vllm:kv_cache_usage_perc":  {{signal: kvUsage}},
		"vllm:gpu_cache_usage_perc": {{signal: kvUsage, older: 1}},
		"vllm:cache_config_info": {
			{signal: kvBlocks, from: "num_gpu_blocks"}, {signal: blockTokens, from: "block_size"}, {signal: kvTokens, from: "kv_cache_size_tokens"},
		},
		"vllm:lora_requests_info":             {{signal: loraInfo}},
		"vllm:generation_tokens_total":        {{signal: tokensOut}},
		"vllm:prefix_cache_queries_total":     {{signal: prefixAsked}},
		"vllm:prefix_cache_hits_total":        {{signal: prefixFound}},
		"vllm:gpu_prefix_cache_queries_total": {{signal: prefixAsked, older: 1}},
		"vllm:gpu_prefix_cache_hits_total":    {{signal: prefixFound, older: 1}},
	},
	{
		"sglang:num_queue_reqs":          {{signal: waiting, where: total}},
		"sglang:num_running_reqs":        {{signal: running, where: total}},
		"sglang:token_usage":             {{signal: kvUsage}},
		"sglang:max_total_num_tokens":    {{signal: kvTokens}},
		"sglang:cache_config_info":       {{signal: kvBlocks, from: "num_pages"}, {signal: blockTokens, from: "page_size"}},
		"sglang:generation_tokens_total": {{signal: tokensOut}},
		"sglang:prompt_tokens_total":     {{signal: prefixAsked}},
		"sglang:cached_tokens_total":     {{signal: prefixFound}},
	},
	{
		"trtllm_num_requests_waiting":       {{signal: waiting}},
		"trtllm_num_requests_running":       {{signal: running}},
		"trtllm_max_num_active_requests":    {{signal: maxBatch}},
		"trtllm_kv_cache_utilization":       {{signal: kvUsage}},
		"trtllm_kv_cache_max_blocks":        {{signal: kvBlocks}},
		"trtllm_kv_cache_tokens_per_block":  {{signal: blockTokens}},
		"trtllm_generation_tokens_total":    {{signal: tokensOut}},
		"trtllm_prompt_tokens_total":        {{signal: prefixAsked}},
		"trtllm_prompt_cached_tokens_total": {{signal: prefixFound}},
	},
	{
		"nv_trt_llm_request_metrics": {
			{signal: waiting, where: is("request_type", "waiting")},
			{signal: running, where: is("request_type", "scheduled")},
			{signal: maxBatch, where: is("request_type", "max")},
		},
		"nv_trt_llm_kv_cache_block_metrics": {
			{signal: kvUsage, where: is("kv_cache_block_type", "fraction")},
			{signal: kvBlocks, where: is("kv_cache_block_type", "max")},
			{signal: blockTokens, where: is("kv_cache_block_type", "tokens_per")},
		},
		// Counts the same requests as the backend's own, where that has any.
		"nv_inference_pending_request_count": {{signal: waiting, older: 1}},
		"nv_inference_exec_count":            {{signal: tokensOut}},
	},
	{
		"tgi_queue_size":                   {{signal: waiting}},
		"tgi_batch_current_size":           {{signal: running}},
		"tgi_request_generated_tokens_sum": {{signal: tokensOut}},
	},
}

// Pool metrics of the endpoint picker of llm-d and of the Gateway API Inference Extension, by their
// names after a prefix. There are several generations, which a picker writes all at once while it
// renames; within one, the names of requests have changed too.
var (
	poolPrefixes = [][]string{
		{"llm_d_epp_"},
		{"llm_d_router_epp_"},
		{"inference_pool_", "inference_objective_", "inference_extension_"},
	}
	pools = dialect{
		"ready_endpoints":                  {{signal: poolReady}},
		"ready_pods":                       {{signal: poolReady}},
		"average_queue_size":               {{signal: poolWaiting}},
		"average_running_requests":         {{signal: poolRunning}},
		"average_kv_cache_utilization":     {{signal: poolKV}},
		"flow_control_queue_size":          {{signal: poolHeld}},
		"flow_control_pool_saturation":     {{signal: poolSaturation, where: is("stage", "effective", "")}},
		"flow_control_stale_endpoints":     {{signal: poolStale}},
		"request_output_tokens_sum":        {{signal: tokensOut}},
		"request_input_tokens_sum":         {{signal: prefixAsked}},
		"request_cached_tokens_sum":        {{signal: prefixFound}},
		"output_tokens_sum":                {{signal: tokensOut}},
		"input_tokens_sum":                 {{signal: prefixAsked}},
		"prompt_cached_tokens_sum":         {{signal: prefixFound}},
		"request_prompt_cached_tokens_sum": {{signal: prefixFound}},
	}
)

// wanted is all of them by full name.
var wanted = func() dialect {
	all := make(dialect)
	for _, d := range dialects {
		for name, rules := range d {
			all[name] = rules
		}
	}
	for generation, prefixes := range poolPrefixes {
		for _, prefix := range prefixes {
			for name, rules := range pools {
				rules = slices.Clone(rules)
				for i := range rules {
					rules[i].older = uint8(generation)
				}
				all[prefix+name] = rules
			}
		}
	}
	return all
}()
