# What go test -bench printed, and medians of it: what the cards of make bench have in common.
/^Benchmark/ {
  name = $1
  sub(/-[0-9]+$/, "", name)
  for (i = 3; i < NF; i += 2) {
    key = name SUBSEP $(i + 1)
    samples[key, ++count[key]] = $i
  }
}
function median(name, unit,    key, n, i, j, x, s) {
  key = name SUBSEP unit
  n = count[key]
  for (i = 1; i <= n; i++) {
    x = samples[key, i] + 0
    for (j = i; j > 1 && s[j - 1] > x; j--) s[j] = s[j - 1]
    s[j] = x
  }
  return n % 2 ? s[(n + 1) / 2] : (s[n / 2] + s[n / 2 + 1]) / 2
}
