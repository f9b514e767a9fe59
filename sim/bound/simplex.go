package bound

import "math/big"

// packing is the linear program: the largest Σ gain·y with y ≥ 0 where for each row the y of the columns
// that use it sum to 1 at most. Its dual, which gives the rows' prices, is what is asked for: the least Σ
// price with prices ≥ 0 where each column's rows have prices that sum to its gain at least.
type packing struct {
	rows    int
	columns []column
}

// column uses the rows whose bits are set.
type column struct {
	rows uint
	gain int64
}

// prices solves it by the simplex method in rationals, so exactly, with Bland's rule, so that it ends.
// A row's price is what is left at its slack variable.
func (p packing) prices() []*big.Rat {
	n := len(p.columns)
	width := n + p.rows + 1 // the columns, a slack for each row, and the right side
	table := make([][]*big.Rat, p.rows+1)
	for r := range table {
		table[r] = make([]*big.Rat, width)
		for c := range table[r] {
			table[r][c] = new(big.Rat)
		}
	}
	goal := table[p.rows]
	for c, col := range p.columns {
		for r := range p.rows {
			if col.rows>>r&1 == 1 {
				table[r][c].SetInt64(1)
			}
		}
		goal[c].SetInt64(-col.gain)
	}
	basis := make([]int, p.rows)
	for r := range p.rows {
		table[r][n+r].SetInt64(1)
		table[r][width-1].SetInt64(1)
		basis[r] = n + r
	}
	for {
		enter := 0
		for enter < width-1 && goal[enter].Sign() >= 0 {
			enter++
		}
		if enter == width-1 {
			break
		}
		// Each column uses a row, so there is a row that bounds it.
		leave := p.leaves(table, basis, enter)
		pivot(table, leave, enter)
		basis[leave] = enter
	}
	return goal[n : n+p.rows]
}

// leaves is the row with the least ratio; of equal ones that with the first variable.
func (p packing) leaves(table [][]*big.Rat, basis []int, enter int) int {
	best := -1
	var least, ratio big.Rat
	for r := range p.rows {
		if table[r][enter].Sign() <= 0 {
			continue
		}
		ratio.Quo(table[r][len(table[r])-1], table[r][enter])
		if order := ratio.Cmp(&least); best < 0 || order < 0 || order == 0 && basis[r] < basis[best] {
			best = r
			least.Set(&ratio)
		}
	}
	return best
}

// pivot makes the column a unit vector with its 1 in the row.
func pivot(table [][]*big.Rat, row, column int) {
	by := new(big.Rat).Set(table[row][column])
	for _, x := range table[row] {
		x.Quo(x, by)
	}
	var product big.Rat
	for r := range table {
		factor := new(big.Rat).Set(table[r][column])
		if r == row || factor.Sign() == 0 {
			continue
		}
		for c, x := range table[r] {
			if table[row][c].Sign() != 0 {
				x.Sub(x, product.Mul(factor, table[row][c]))
			}
		}
	}
}
