# Prints the card of make bench: medians of what go test -bench printed, beside the baseline of the same
# run and the goal. awk -f bench-samples.awk -f bench-card.awk bench.txt
END {
  print "Choosing an endpoint (predicted time to first token)         time   allocs   goal"
  split("10 100 1000 10000", sizes, " ")
  for (i = 1; i in sizes; i++)
    micro(sizes[i] " endpoints", "BenchmarkBest/predicted-ttft/" sizes[i], sizes[i] == 100 ? "2 us, 0 allocs" : "0 allocs")
  print "\nLooking a prompt up in the prefix index, 10 endpoints        time   allocs"
  split("8000 100000", prompts, " ")
  split("none first parts all", shares, " ")
  for (i = 1; i in prompts; i++)
    for (j = 1; j in shares; j++)
      micro(prompts[i] " tokens, held: " shares[j], "BenchmarkMatch/" prompts[i] "tokens/10holders/" shares[j], "")
  print "\nReading a body                                               time   allocs   encoding/json takes"
  split("0.5KB 20KB 1MB", bodies, " ")
  for (i = 1; i in bodies; i++) {
    mine = "BenchmarkRead/size=" bodies[i] "/by=scanner"
    other = "BenchmarkRead/size=" bodies[i] "/by=encoding-json"
    if (have(mine, "ns/op"))
      micro(bodies[i], mine, sprintf("%.1f x", median(other, "ns/op") / median(mine, "ns/op")))
  }
  print "\nWhole requests over sockets        CPU   x bare relay    allocs   goal"
  split("whole stream paced", answers, " ")
  split("bare relay router router+redis haproxy", systems, " ")
  goal["whole"] = "2 x, 250 us"; goal["stream"] = "2 x, 400 us"; goal["paced"] = "2 x"
  for (i = 1; i in answers; i++)
    for (j = 1; j in systems; j++) {
      n = "BenchmarkRequest/answer=" answers[i] "/by=" systems[j]
      if (have(n, "cpu-ns/op"))
        printf "  %-20s %10.0f us %12.2f %9s   %s\n", answers[i] " " systems[j], median(n, "cpu-ns/op") / 1e3, median(n, "x-bare"),
          have(n, "allocs/op") ? sprintf("%.0f", median(n, "allocs/op")) : "", systems[j] ~ /^router/ ? goal[answers[i]] : ""
    }
  print "\nAdded latency at half of the rate that is possible     p50         p99   failed   goal"
  for (j = 1; j in systems; j++) {
    n = "BenchmarkLatency/by=" systems[j]
    if (have(n, "added-p50-ns"))
      printf "  %-36s %10.3f ms %8.3f ms %6.2f %%   %s\n", systems[j] sprintf(", %.0f requests/s", median(n, "requests/s")),
        median(n, "added-p50-ns") / 1e6, median(n, "added-p99-ns") / 1e6, median(n, "failed-%"), systems[j] ~ /^router/ ? "0.3 / 1 ms" : ""
  }
  print "\nMemory of an open stream          heap + stacks    resident   goal"
  for (j = 1; j in systems; j++) {
    n = "BenchmarkOpenStreams/by=" systems[j]
    if (have(n, "B/stream"))
      printf "  %-28s %10.1f KiB %7.1f KiB   %s\n", systems[j] sprintf(", %.0f streams", median(n, "streams")),
        median(n, "B/stream") / 1024, median(n, "rss-B/stream") / 1024, systems[j] ~ /^router/ ? "40 KiB" : ""
  }
}
function have(name, unit) { return (name SUBSEP unit) in count }
function micro(label, name, note) {
  if (have(name, "ns/op"))
    printf "  %-52s %10s %8.0f   %s\n", label, span(median(name, "ns/op")), median(name, "allocs/op"), note
}
function span(ns) { return ns < 1e3 ? sprintf("%.0f ns", ns) : ns < 1e6 ? sprintf("%.1f us", ns / 1e3) : sprintf("%.1f ms", ns / 1e6) }
