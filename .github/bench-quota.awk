# Prints the card of make bench-quota: medians of what go test -bench printed, beside the baseline of the same
# run and the goal. awk -f bench-samples.awk -f bench-quota.awk bench-quota.txt
END {
  print "Quotas                                                   this   baseline              goal"
  six = "BenchmarkDecideSixLevels/by="
  row("decision on six limits among 10,000 paths", six "leases", "cpu-ns/op", "ns", six "x-time-rate", "x/time/rate", "300 ns")
  row("memory that it takes", six "leases", "allocs/op", "allocs", six "x-time-rate", "x/time/rate", "0")
  own("a router\x27s whole admission, 100 of them busy", "BenchmarkTake/busy=100", "cpu-ns/op", "ns")
  own("memory that it takes: the reservation", "BenchmarkTake/busy=100", "allocs/op", "allocs")
  redis = "BenchmarkRedis/"
  row("Redis' time for a call about four limits", redis "by=lease", "redis-µs/op", "us", redis "by=redis_rate", "redis_rate", "1/3")
  row("the same, one of sixteen in a pipeline", redis "one-of-sixteen-in-a-pipeline/by=lease", "redis-µs/op", "us", redis "by=redis_rate", "redis_rate", "1/3")
  many = "BenchmarkDecisions/by="
  row("Redis' time for a decision, 1,000 a second", many "leases", "redis-µs/op", "us", many "redis_rate", "redis_rate", "")
  row("decisions for each round trip", many "leases", "decisions/trip", "", many "redis_rate", "redis_rate", "")
}
function own(label, name, unit, as) {
  if ((name SUBSEP unit) in count)
    printf "  %-46s %8.4g %s\n", label, median(name, unit), as
}
function row(label, mine, unit, as, other, by, goal) {
  if ((mine SUBSEP unit) in count && (other SUBSEP unit) in count)
    printf "  %-46s %8.4g %-6s %8.4g %-11s %s\n", label, median(mine, unit), as, median(other, unit), by, goal
}
