package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"

	"github.com/ptxrun/ptxrun"
	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
)

type infoCmd struct {
	JSON bool `name:"json" help:"Write JSON."`
}

// infoReport is what info tells; its JSON form is for scripts.
type infoReport struct {
	Version string       `json:"version"`
	Go      string       `json:"go"`
	System  string       `json:"system"`
	CUDA    bool         `json:"built_with_cuda"`
	Chosen  string       `json:"chosen,omitempty"` // device that commands use, empty if it cannot be had
	Devices []infoDevice `json:"devices"`
}

type infoDevice struct {
	Device          string `json:"device"`
	Found           bool   `json:"found"`
	Reason          string `json:"reason,omitempty"` // why not; what follows is of a device that was found
	Name            string `json:"name,omitempty"`
	Capability      int    `json:"capability,omitempty"` // 90 is sm_90
	Multiprocessors int    `json:"multiprocessors,omitempty"`
	Memory          int64  `json:"memory,omitempty"`         // bytes
	DriverVersion   int    `json:"driver_version,omitempty"` // 13000 is 13.0
}

func (c *infoCmd) Run(s *session) error {
	r := infoReport{
		Version: version(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CUDA: cuda.Built,
	}
	for _, d := range ptxrun.Devices() {
		line := infoDevice{Device: d.Name}
		if i := d.Info; d.Err != nil {
			line.Reason = reason(d.Err)
		} else {
			line = infoDevice{d.Name, true, "", i.Name, i.Capability, i.Multiprocessors, i.TotalMemory, i.DriverVersion}
		}
		r.Devices = append(r.Devices, line)
	}
	openErr := s.onDevice(func(rt *ptxrun.Runtime) error {
		r.Chosen = deviceName(rt.Info())
		return nil
	})
	write := r.writeText
	if c.JSON {
		write = r.writeJSON
	}
	if err := write(s.stdout); err != nil {
		return err
	}
	return openErr
}

// reason is why a device cannot be used. Which call found that out is left out,
// and that there is no driver where the build would not know one.
func reason(err error) string {
	var e *driver.Error
	switch {
	case !errors.As(err, &e):
		return plain(err)
	case e.Detail == "":
		return e.Code.Error()
	case e.Code == driver.ErrNoDriver && !cuda.Built:
		return e.Detail
	}
	return oneLine(e.Code.Error() + ": " + e.Detail)
}

// deviceName is the name that opens the device.
func deviceName(i driver.Info) string {
	if i.Kind == driver.KindCUDA {
		return fmt.Sprintf("%s:%d", i.Kind, i.Ordinal)
	}
	return i.Kind
}

func (r *infoReport) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *infoReport) writeText(w io.Writer) error {
	tag := "without CUDA"
	if r.CUDA {
		tag = "with CUDA"
	}
	fmt.Fprintf(w, "ptxrun %s, %s, %s, built %s\n\n", r.Version, r.Go, r.System, tag)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, d := range r.Devices {
		mark := " "
		if d.Device == r.Chosen {
			mark = "*"
		}
		fmt.Fprintf(t, "%s %s\t%s\n", mark, d.Device, d.describe())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Chosen == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, "\n* is what commands use; --device or PTXRUN_DEVICE chooses another.")
	return err
}

func (d *infoDevice) describe() string {
	if !d.Found {
		return "no: " + d.Reason
	}
	text := d.Name
	if d.Capability != 0 {
		text += fmt.Sprintf(", sm_%d", d.Capability)
	}
	text += fmt.Sprintf(", %d processors, %.1f GiB", d.Multiprocessors, float64(d.Memory)/(1<<30))
	if v := d.DriverVersion; v != 0 {
		text += fmt.Sprintf(", driver for CUDA %d.%d", v/1000, v%1000/10)
	}
	return text
}
