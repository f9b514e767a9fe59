package bound

import "math"

// network is a transportation problem: supplies that are to be sent to places with room, at a price for
// each unit between each two.
type network struct {
	supply, room []int64
	price        [][]int64 // by supply and place; negative: not allowed
	flow         [][]int64
}

func newNetwork(supply, room []int64, price [][]int64) *network {
	n := &network{supply: append([]int64(nil), supply...), room: append([]int64(nil), room...), price: price}
	for range supply {
		n.flow = append(n.flow, make([]int64, len(room)))
	}
	return n
}

// solve sends as much as there is room for, and that at the least total price: by successive shortest
// paths, each of which sends what it can at the least price for one unit more.
func (n *network) solve() {
	for n.augment() {
	}
}

// augment sends along the cheapest path from what is left of a supply to what is left of a place's room;
// false: there is none.
func (n *network) augment() bool {
	const far = math.MaxInt64 / 4
	s, p := len(n.supply), len(n.room)
	cost := make([]int64, s+p) // supplies first, then places
	from := make([]int, s+p)
	for i := range cost {
		cost[i], from[i] = far, -1
		if i < s && n.supply[i] > 0 {
			cost[i] = 0
		}
	}
	// Bellman and Ford: ways back, against flow, have negative prices.
	for changed := true; changed; {
		changed = false
		for i := range s {
			for j := range p {
				if n.price[i][j] < 0 {
					continue
				}
				if there := cost[i] + n.price[i][j]; cost[i] < far && there < cost[s+j] {
					cost[s+j], from[s+j], changed = there, i, true
				}
				if back := cost[s+j] - n.price[i][j]; n.flow[i][j] > 0 && cost[s+j] < far && back < cost[i] {
					cost[i], from[i], changed = back, s+j, true
				}
			}
		}
	}
	end := -1
	for j := range p {
		if n.room[j] > 0 && cost[s+j] < far && (end < 0 || cost[s+j] < cost[end]) {
			end = s + j
		}
	}
	if end < 0 {
		return false
	}
	n.send(end, from)
	return true
}

// send follows the path back from its end, once for how much it takes and once to send it.
func (n *network) send(end int, from []int) {
	s := len(n.supply)
	amount := n.room[end-s]
	start := end
	for at := end; from[at] >= 0; at = from[at] {
		if at < s {
			amount = min(amount, n.flow[at][from[at]-s])
		}
		start = from[at]
	}
	amount = min(amount, n.supply[start])
	for at := end; from[at] >= 0; at = from[at] {
		if at < s {
			n.flow[at][from[at]-s] -= amount
		} else {
			n.flow[from[at]][at-s] += amount
		}
	}
	n.supply[start] -= amount
	n.room[end-s] -= amount
}
