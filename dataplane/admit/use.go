package admit

import (
	"math"
	"math/bits"

	"anabranch/ratelimit"
)

const (
	// bytesPerToken is the usual length of a token of English text.
	bytesPerToken = 4
	// outputReserve is what is set aside for an answer, in tokens, unless the request allows less.
	// Longer answers grow their reserve while they last, or go into debt when they settle.
	outputReserve = 256
	// maxTokens bounds one request's tokens; no model reads or writes as many.
	maxTokens = 1 << 40
	// maxMoney bounds one request's price in micro-dollars, a thousand million dollars.
	maxMoney = 1e15
)

// InputTokens estimates the tokens of a prompt of so many bytes of text: a quarter, at least 1.
func InputTokens(promptBytes int) int64 {
	return max(1, (int64(promptBytes)+bytesPerToken-1)/bytesPerToken)
}

// OutputTokens is what to reserve for the answer of a request whose max_tokens is given (0: not
// set): 256, or less if the request allows only less.
func OutputTokens(maxTokens int64) int64 {
	if maxTokens <= 0 {
		return outputReserve
	}
	return min(maxTokens, outputReserve)
}

// use is what a request takes of all that limits count.
type use struct {
	requests, input, output   int64
	inputMicros, outputMicros uint64 // prices per million tokens, in micro-dollars
}

// bounded cuts the tokens to what sums stay exact with.
func (u use) bounded() use {
	u.requests = min(max(u.requests, 0), maxTokens)
	u.input, u.output = min(max(u.input, 0), maxTokens), min(max(u.output, 0), maxTokens)
	return u
}

// money is the price of the tokens in micro-dollars, rounded up.
func (u *use) money() int64 {
	hi, lo := bits.Mul64(uint64(u.input), u.inputMicros)
	hi2, lo2 := bits.Mul64(uint64(u.output), u.outputMicros)
	lo, carry := bits.Add64(lo, lo2, 0)
	hi, over := bits.Add64(hi, hi2, carry)
	const million = 1_000_000
	lo, carry = bits.Add64(lo, million-1, 0)
	if hi += carry; over != 0 || hi >= million {
		return maxMoney
	}
	micros, _ := bits.Div64(hi, lo, million)
	return int64(min(micros, maxMoney))
}

// unit is what a limit counts.
type unit uint8

const (
	ofNothing unit = iota // of a kind that is not known here
	ofRequests
	ofInput
	ofOutput
	ofTotal
	ofSlots
	ofMoney
)

func unitOf(k ratelimit.Kind) unit {
	switch k {
	case ratelimit.Requests:
		return ofRequests
	case ratelimit.InputTokens:
		return ofInput
	case ratelimit.OutputTokens:
		return ofOutput
	case ratelimit.TotalTokens:
		return ofTotal
	case ratelimit.Slots:
		return ofSlots
	case ratelimit.Money:
		return ofMoney
	}
	return ofNothing
}

// cost of the use at a limit.
func (u *use) cost(of unit) int64 {
	switch of {
	case ofRequests:
		return u.requests
	case ofInput:
		return u.input
	case ofOutput:
		return u.output
	case ofTotal:
		return u.input + u.output
	case ofSlots:
		return 1
	case ofMoney:
		return u.money()
	}
	return 0
}

// costs fills in what the use costs at each limit of a path.
func (u *use) costs(to []int64, path []unit) {
	for i, of := range path {
		to[i] = u.cost(of)
	}
}

// scaled is a part of n, which is not below 0, rounded down.
func scaled(n int64, part float64) int64 {
	return int64(math.Floor(float64(n)*min(max(part, 0), 2) + 1e-9))
}
