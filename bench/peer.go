package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// peer is a program that prints figures of the same ids on the same data, called
// as COMMAND -device N -scale S ID...
type peer struct{ name, command string }

// peerLine is a line that a peer prints: what it is, or a figure.
type peerLine struct {
	About string  `json:"about"`
	ID    string  `json:"id"`
	N     int64   `json:"n"`
	MS    float64 `json:"ms"`
	Rate  float64 `json:"rate"`
	Unit  string  `json:"unit"`
	Check uint64  `json:"check"`
}

type peerList []peer

func (l *peerList) String() string { return fmt.Sprint([]peer(*l)) }

func (l *peerList) Set(v string) error {
	name, command, ok := strings.Cut(v, "=")
	if !ok || name == "" || command == "" {
		return errors.New("want NAME=COMMAND")
	}
	*l = append(*l, peer{name, command})
	return nil
}

// builtPeers are the names of the peers that peers/build.sh builds, by program.
var builtPeers = []struct{ program, name string }{{"cub", "CUB"}, {"seeds", "seeds"}, {"torch", "torch"}, {"cdp", "dynamic parallelism"}, {"loop", "C loop"}}

// peersBeside are the built peers in the folder of this program.
func peersBeside() (l peerList) {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	for _, p := range builtPeers {
		path := filepath.Join(filepath.Dir(self), p.program)
		if s, err := os.Stat(path); err == nil && s.Mode().IsRegular() {
			l = append(l, peer{p.name, "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"})
		}
	}
	return l
}

// measure runs the peer on the figures of the results and sets its own beside
// them, those that it has printed by then if the context is cancelled.
func (p peer) measure(ctx context.Context, results *Results, ordinal, scale int, stderr io.Writer) error {
	if len(results.Rows) == 0 {
		return nil // without ids a peer would measure all it has
	}
	args := []string{"-c", p.command + ` "$@"`, p.name, "-device", strconv.Itoa(ordinal), "-scale", strconv.Itoa(scale)}
	for _, row := range results.Rows {
		args = append(args, row.ID)
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Stderr = stderr
	// The program that measures is a child of the shell.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	text, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("peer %s: %w", p.name, err)
	}
	return errors.Join(err, p.merge(results, text)) // with what it printed before it failed
}

// merge sets what the peer printed beside our figures of the same ids.
func (p peer) merge(results *Results, text []byte) error {
	var errs []error
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var line peerLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			errs = append(errs, fmt.Errorf("peer %s printed %q: %w", p.name, lines.Text(), err))
			continue
		}
		if line.About != "" {
			results.Machine["peer "+p.name] = line.About
			continue
		}
		ours := results.row(line.ID)
		switch {
		case ours == nil:
		case ours.Peer != "":
			errs = append(errs, fmt.Errorf("peers %s and %s both measure %s", ours.Peer, p.name, line.ID))
		case ours.N != line.N:
			errs = append(errs, fmt.Errorf("peer %s measured %s at %d, ours is at %d", p.name, line.ID, line.N, ours.N))
		case ours.check != line.Check:
			errs = append(errs, fmt.Errorf("peer %s has %d as the result of %s, ours is %d: the data differ", p.name, line.Check, line.ID, ours.check))
		case !(line.MS > 0):
			errs = append(errs, fmt.Errorf("peer %s measured %v ms for %s", p.name, line.MS, line.ID))
		default:
			ours.Peer, ours.PeerMS, ours.Ratio = p.name, rounded(line.MS), rounded(line.MS/ours.OursMS)
		}
	}
	return errors.Join(append(errs, lines.Err())...)
}
