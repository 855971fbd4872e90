package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Row is a figure in the results.
type Row struct {
	ID        string  `json:"id"`
	N         int64   `json:"n"` // elements
	OursMS    float64 `json:"ours_ms"`
	Rate      float64 `json:"rate"` // ours
	Unit      string  `json:"unit"`
	Peer      string  `json:"peer,omitempty"`
	PeerMS    float64 `json:"peer_ms,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`      // peer_ms / ours_ms
	OfCeiling float64 `json:"of_ceiling,omitempty"` // the rate as a part of the copy's
	Commit    string  `json:"commit"`

	// check is a number of the result that the peer's must equal.
	check uint64
}

// PeerRate is the peer's rate in the row's unit, 0 without a peer.
func (r Row) PeerRate() float64 {
	if r.PeerMS == 0 {
		return 0
	}
	return r.Rate * r.OursMS / r.PeerMS
}

// Results is a results file.
type Results struct {
	Machine map[string]string `json:"machine"`
	Rows    []Row             `json:"rows"`
}

func load(path string) (r Results, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r Results) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// row is the row of an id, or nil.
func (r Results) row(id string) *Row {
	if i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.ID == id }); i >= 0 {
		return &r.Rows[i]
	}
	return nil
}

// keep takes over the rows of before that r lacks, in before's order.
func (r *Results) keep(before Results) error {
	for _, k := range []string{"gpu", "driver"} {
		if r.Machine[k] != before.Machine[k] {
			return fmt.Errorf("the file's rows are of %s %q, this run's of %q", k, before.Machine[k], r.Machine[k])
		}
	}
	var rows []Row
	for _, old := range before.Rows {
		if now := r.row(old.ID); now != nil {
			old = *now
		}
		rows = append(rows, old)
	}
	for _, now := range r.Rows {
		if before.row(now.ID) == nil {
			rows = append(rows, now)
		}
	}
	r.Rows = rows
	return nil
}

// setExamples adds the geometric means of the examples, once all of them have a peer.
func (r *Results) setExamples() {
	const id = "agg/examples"
	r.Rows = slices.DeleteFunc(r.Rows, func(row Row) bool { return row.ID == id })
	var ours, peers float64
	mean := Row{ID: id, Unit: "calls/s"}
	last := -1
	for i, row := range r.Rows {
		if !strings.HasPrefix(row.ID, id+"/") {
			continue
		}
		if row.Peer == "" {
			return
		}
		ours, peers = ours+math.Log(row.OursMS), peers+math.Log(row.PeerMS)
		mean.Peer, mean.Commit = row.Peer, row.Commit
		mean.N++
		last = i
	}
	if mean.N < int64(len(exampleProblems)) {
		return
	}
	n := float64(mean.N)
	mean.OursMS, mean.PeerMS, mean.Ratio = rounded(math.Exp(ours/n)), rounded(math.Exp(peers/n)), rounded(math.Exp((peers-ours)/n))
	mean.Rate = rounded(1000 / mean.OursMS)
	r.Rows = slices.Insert(r.Rows, last+1, mean)
}

// setCeiling sets each figure's part of what a copy moves, by the faster of our
// copy and the peer's.
func (r *Results) setCeiling() {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return strings.HasPrefix(row.ID, "copy/") })
	if i < 0 {
		return
	}
	ceiling := max(r.Rows[i].Rate, r.Rows[i].PeerRate())
	for j := range r.Rows {
		if row := &r.Rows[j]; row.Unit == r.Rows[i].Unit {
			row.OfCeiling = rounded(row.Rate / ceiling)
		}
	}
}

// rounded is x to six digits, which is more than a measurement has.
func rounded(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	return y
}
