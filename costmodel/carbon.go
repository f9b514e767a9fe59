package costmodel

// Carbon is what electricity emits at a place, and what that is made to cost. The cost is a figure to
// decide by: nobody sends a bill for it, so it is never part of any other amount.
type Carbon struct {
	// MilligramsPerKWh of CO2 equivalent.
	MilligramsPerKWh int64
	// PerTonne of CO2 equivalent. 0: emissions cost nothing.
	PerTonne Micros
}

// Cost of the emissions of so many watt-hours, rounded up to the micro-dollar.
func (c Carbon) Cost(wattHours int64) Micros {
	perMWh := ceil(c.PerTonne, max(c.MilligramsPerKWh, 0), 1_000_000) // mg per kWh are g per MWh
	return ceil(perMWh, max(wattHours, 0), 1_000_000)
}

// emissions are yearly averages of AWS regions in milligrams of CO2 equivalent per kWh, see
// https://www.cloudcarbonfootprint.org/docs/methodology/#appendix-v-grid-emissions-factors, read in March 2024.
var emissions = map[string]int64{
	"us-east-1": 379_100, "us-east-2": 410_600, "us-west-1": 322_200, "us-west-2": 322_200, "ca-central-1": 120_000,
	"eu-west-1": 278_600, "eu-west-2": 225_000, "eu-west-3": 51_100, "eu-central-1": 311_000, "eu-north-1": 8_800,
	"ap-northeast-1": 465_800, "ap-northeast-2": 415_600, "ap-southeast-1": 408_000, "ap-southeast-2": 760_000,
	"ap-south-1": 708_200, "sa-east-1": 61_700,
}

// Emissions are the milligrams of CO2 equivalent per kWh of an AWS region, as a yearly average. Not ok:
// they are not known.
func Emissions(region string) (milligramsPerKWh int64, ok bool) {
	mg, ok := emissions[region]
	return mg, ok
}
