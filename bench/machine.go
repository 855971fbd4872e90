package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/ptxrun/ptxrun/driver"
)

// machine names what is measured. The clocks are the GPU's at the time of the
// call.
func machine(info driver.Info) map[string]string {
	m := map[string]string{
		"gpu":  info.Name,
		"date": time.Now().UTC().Format(time.DateOnly),
	}
	set := func(key, value string) {
		if value != "" {
			m[key] = value
		}
	}
	set("host", hostName())
	if info.Kind != driver.KindCUDA {
		return m
	}
	m["capability"] = fmt.Sprintf("sm_%d", info.Capability)
	m["driver"] = fmt.Sprintf("CUDA %d.%d", info.DriverVersion/1000, info.DriverVersion%1000/10)
	smi := func(query string) string {
		return output("nvidia-smi", "-i", strconv.Itoa(info.Ordinal), "--query-gpu="+query, "--format=csv,noheader")
	}
	if v := smi("driver_version"); v != "" {
		m["driver"] = v + ", " + m["driver"]
	}
	if c := strings.Split(smi("clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem"), ", "); len(c) == 4 {
		m["clocks"] = fmt.Sprintf("SM %s of %s, memory %s of %s", c[0], c[1], c[2], c[3])
	}
	for line := range strings.Lines(output("nvcc", "--version")) {
		if _, release, ok := strings.Cut(line, "release "); ok {
			m["toolkit"] = "CUDA " + strings.TrimSpace(release)
		}
	}
	return m
}

// output is what a program prints, or nothing if it is not there or fails.
func output(name string, args ...string) string {
	text, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// hostName is the host's processor as Linux names it.
func hostName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(text) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.HasPrefix(key, []byte("model name")) {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// builtCommit is the commit that this program was built from, as the go command
// noted it.
func builtCommit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if settings["vcs.modified"] == "true" {
		commit += " and changes"
	}
	return commit
}
