package twin

import "github.com/ptxrun/ptxrun/driver"

// lcsTile is the edge of the square of cells that one core fills at a time.
const lcsTile = 512

// LCSSpinWait fills the m×n table of int32, row-major, whose cell (i, j) is the
// length of the longest common subsequence of a[:i+1] and b[:j+1]. Squares of
// cells on one anti-diagonal do not depend on each other and are filled in
// parallel. The ticket, by which the kernel's blocks order themselves, is left
// alone.
//
// Parameters: a, m, b, n, table, ticket.
func LCSSpinWait() driver.Twin {
	return func(l *driver.TwinLaunch) error {
		aAt, m, bAt, n := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr(), int64(l.Args.Uint64())
		tableAt := l.Args.Ptr()
		a, err := driver.Slice[byte](l.Mem, aAt, m)
		if err != nil {
			return err
		}
		b, err := driver.Slice[byte](l.Mem, bAt, n)
		if err != nil {
			return err
		}
		if m != 0 && n > (1<<62)/m {
			return driver.Errorf("launch", driver.ErrTooLarge, "a table of %d×%d cells", m, n)
		}
		table, err := driver.Slice[int32](l.Mem, tableAt, m*n)
		if err != nil || len(table) == 0 {
			return err
		}
		rows, cols := ceilDiv(m, lcsTile), ceilDiv(n, lcsTile)
		for d := range rows + cols - 1 {
			top := max(0, d-cols+1)
			l.Parallel(min(d, rows-1)-top+1, func(k int64) {
				i, j := (top+k)*lcsTile, (d-top-k)*lcsTile
				lcsSquare(table, a, b, i, min(m, i+lcsTile), j, min(n, j+lcsTile))
			})
		}
		return nil
	}
}

// lcsSquare fills rows [i, iEnd) and columns [j, jEnd), above and left of which
// everything is filled.
func lcsSquare(table []int32, a, b []byte, i, iEnd, j, jEnd int64) {
	n := int64(len(b))
	zeros := make([]int32, jEnd-j)
	above := zeros
	if i > 0 {
		above = table[(i-1)*n+j : (i-1)*n+jEnd]
	}
	for ; i < iEnd; i++ {
		row := table[i*n+j : i*n+jEnd]
		var left, diagonal int32
		if j > 0 {
			left = table[i*n+j-1]
			if i > 0 {
				diagonal = table[(i-1)*n+j-1]
			}
		}
		x := a[i]
		above = above[:len(row)]
		for k, y := range b[j:jEnd] {
			up := above[k]
			best := max(left, up)
			if x == y {
				best = diagonal + 1
			}
			row[k] = best
			left, diagonal = best, up
		}
		above = row
	}
}

// LCSTiled fills the squares of tile by tile cells on one anti-diagonal, from row
// first of squares on, a block each. right has the cells of the last column in
// each row so far, lower those of the last row in each column, corners the cell
// before a square's first row and column.
//
// Parameters: a, m, b, n, right, lower, corners, diagonal, first.
func LCSTiled[T Unsigned](tile int64) driver.Twin {
	return func(l *driver.TwinLaunch) error {
		aAt, m, bAt, n := l.Args.Ptr(), int64(l.Args.Uint64()), l.Args.Ptr(), int64(l.Args.Uint64())
		rightAt, lowerAt, cornersAt := l.Args.Ptr(), l.Args.Ptr(), l.Args.Ptr()
		diagonal, first := int64(l.Args.Uint64()), int64(l.Args.Uint64())
		a, err := driver.Slice[T](l.Mem, aAt, m)
		if err != nil {
			return err
		}
		b, err := driver.Slice[T](l.Mem, bAt, n)
		if err != nil {
			return err
		}
		right, err := driver.Slice[uint32](l.Mem, rightAt, m)
		if err != nil {
			return err
		}
		lower, err := driver.Slice[uint32](l.Mem, lowerAt, n)
		if err != nil {
			return err
		}
		corners, err := driver.Slice[uint32](l.Mem, cornersAt, ceilDiv(m, tile))
		if err != nil {
			return err
		}
		l.Parallel(int64(l.Grid.X), func(k int64) {
			row, column := first+k, diagonal-first-k
			rows, columns := a[row*tile:min(m, (row+1)*tile)], b[column*tile:min(n, (column+1)*tile)]
			left, up := right[row*tile:][:len(rows)], lower[column*tile:][:len(columns)]
			corner := corners[row]
			corners[row] = up[len(up)-1]
			for i, x := range rows {
				before, cell := corner, left[i]
				corner = left[i]
				for j, y := range columns {
					above := up[j]
					if cell = max(cell, above); x == y {
						cell = before + 1
					}
					before, up[j] = above, cell
				}
				left[i] = cell
			}
		})
		return nil
	}
}
