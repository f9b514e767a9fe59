package scenario

import (
	"slices"
	"time"

	"anabranch/api/fleet"
)

// awsRegions and awsRTT are round trips between regions of AWS in ms, the mean of both ways, by
// measurements of cloudping.co of about 2021 as kept in the repository bft-smart/library
// (data/cloudPing/cloudping.csv). Row i has the regions after region i.
var (
	awsRegions = []fleet.RegionID{
		"us-east-1",
		"us-east-2",
		"us-west-1",
		"us-west-2",
		"ca-central-1",
		"sa-east-1",
		"eu-west-1",
		"eu-west-2",
		"eu-west-3",
		"eu-central-1",
		"eu-north-1",
		"ap-northeast-1",
		"ap-northeast-2",
		"ap-southeast-1",
		"ap-southeast-2",
		"ap-south-1",
		"me-south-1",
		"af-south-1",
	}
	awsRTT = [][]int{
		{16, 64, 72, 19, 118, 70, 78, 84, 92, 110, 156, 184, 227, 201, 190, 200, 227},
		{54, 52, 30, 129, 86, 89, 95, 103, 119, 144, 172, 219, 191, 200, 212, 236},
		{23, 81, 178, 140, 140, 144, 152, 169, 110, 138, 184, 140, 240, 267, 298},
		{64, 178, 123, 130, 137, 144, 159, 101, 127, 177, 142, 233, 253, 278},
		{130, 76, 81, 88, 95, 110, 145, 177, 225, 199, 193, 209, 239},
		{181, 189, 199, 205, 219, 259, 290, 334, 313, 303, 322, 349},
		{13, 20, 27, 42, 204, 235, 182, 258, 125, 137, 163},
		{10, 16, 32, 212, 243, 171, 266, 115, 128, 156},
		{11, 31, 219, 248, 164, 280, 108, 123, 165},
		{23, 232, 237, 164, 283, 119, 121, 192},
		{244, 265, 183, 296, 140, 146, 188},
		{36, 78, 114, 135, 169, 370},
		{75, 147, 130, 166, 400},
		{94, 60, 89, 252},
		{149, 185, 424},
		{43, 203},
		{196},
	}
)

// measured is the round trip between two regions of AWS; false: not known.
func measured(a, b fleet.RegionID) (time.Duration, bool) {
	i, j := slices.Index(awsRegions, a), slices.Index(awsRegions, b)
	if i < 0 || j < 0 || i == j {
		return 0, false
	}
	if i > j {
		i, j = j, i
	}
	return time.Duration(awsRTT[i][j-i-1]) * time.Millisecond, true
}
