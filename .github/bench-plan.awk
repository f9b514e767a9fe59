# Prints the card of make bench-plan: medians of what go test -bench printed, beside the goal.
# awk -f bench-samples.awk -f bench-plan.awk bench-plan.txt
END {
  print "Planner, 20 regions x 10 classes x 30 models                   CPU   rounds   goal"
  asked["50"] = "71 %"; asked["70"] = "99 %"; asked["100"] = "142 %"; asked["120"] = "170 %"
  split("50 70 100 120", parts, " ")
  for (i = 1; i in parts; i++)
    row("a hundredth changed, asked for " asked[parts[i]] " of what is possible", "BenchmarkWarm/20x10x30x20/" parts[i], parts[i] > 70 ? "50 ms" : parts[i] == 50 ? "1 ms" : "")
  for (i = 1; i in parts; i++)
    row("from nothing, asked for " asked[parts[i]] " of what is possible", "BenchmarkCold/20x10x30x20/" parts[i], parts[i] > 70 ? "500 ms" : "")
  row("a whole plan that changes nothing", "BenchmarkComputeWide/20x10x30", "50 ms")
  row("a whole plan when a region is lost, and there is room", "BenchmarkComputeLoss/20x10x30/40", "500 ms")
  row("a whole plan when a region is lost, and there is none", "BenchmarkComputeLoss/20x10x30/90", "500 ms")
}
function row(label, name, goal) {
  if ((name SUBSEP "cpu-ns/op") in count)
    printf "  %-54s %8.1f ms %6s   %s\n", label, median(name, "cpu-ns/op") / 1e6, (name SUBSEP "rounds/op") in count ? sprintf("%.1f", median(name, "rounds/op")) : "", goal
}
