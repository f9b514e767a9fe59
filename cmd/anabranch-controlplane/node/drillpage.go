package node

import "anabranch/sim/report/rehearsal"

// drillPage shows the report of a drill.
func drillPage(report []byte) (page []byte, policy string, err error) {
	page, err = rehearsal.HTML(report)
	return page, rehearsal.Policy(), err
}
