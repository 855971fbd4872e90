//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/cuda/fake"
)

func TestInfo(t *testing.T) {
	d := open(t)
	want := driver.Info{
		Kind: driver.KindCUDA, Ordinal: 0, Name: "Fake GPU 0", Capability: 90, Multiprocessors: 132,
		WarpSize: 32, MaxThreadsPerBlock: 1024, MaxGridX: 1<<31 - 1, SharedPerBlock: 48 << 10,
		SharedPerBlockMax: 227 << 10, L2: 50 << 20, TotalMemory: 80 << 30, DriverVersion: 12040,
		StreamOrderedAlloc: true,
	}
	if oldDriver {
		want.DriverVersion, want.StreamOrderedAlloc = 11000, false
	}
	assert.Equal(t, want, d.Info())

	free, total, err := d.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, int64(79<<30), free)
	assert.Equal(t, int64(80<<30), total)

	all, err := cuda.Devices()
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, want, all[0])
	assert.Equal(t, 1, all[1].Ordinal)
	assert.Equal(t, "Fake GPU 1", all[1].Name)
}

func TestOpenWithoutDevice(t *testing.T) {
	open(t).Close()
	fake.SetDevices(0)
	_, err := cuda.Open(0)
	fails(t, err, driver.ErrNoDevice, "sees no GPU")
	all, err := cuda.Devices()
	assert.NoError(t, err)
	assert.Empty(t, all)
}

func TestOpenOrdinals(t *testing.T) {
	open(t).Close()
	for _, ordinal := range []int{-1, 2, 1 << 40} {
		_, err := cuda.Open(ordinal)
		fails(t, err, driver.ErrInvalidDevice, "this machine has 2")
	}
	d, err := cuda.Open(1)
	require.NoError(t, err)
	assert.Equal(t, "Fake GPU 1", d.Info().Name)
	assert.NoError(t, d.Close())
}

// The driver is there, but does not start; a later attempt may succeed.
func TestOpenWhenInitFails(t *testing.T) {
	open(t).Close()
	for _, code := range []driver.Code{driver.ErrNoDevice, driver.ErrSystemDriver, driver.ErrUnknown, 304} {
		fake.SetInit(code)
		_, err := cuda.Open(0)
		fails(t, err, code, "cuInit")
		_, err = cuda.Devices()
		fails(t, err, code, "cuInit")
	}
	fake.SetInit(0)
	d, err := cuda.Open(0)
	require.NoError(t, err)
	assert.NoError(t, d.Close())
}

// child starts this binary as a service would be, and returns what Open said.
func child(t *testing.T, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// A process with the race detector would sleep for a second when it ends.
	cmd.Env = environ(append(env, childEnv+"=1", "GORACE=atexit_sleep_ms=0")...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "the process must start and end by itself: %s", out)
	return string(out)
}

// One binary starts on every machine, and Open says what is missing.
func TestOneBinary(t *testing.T) {
	lib := libEnv + "=" + library(fake.Driver)
	for name, c := range map[string]struct {
		env  []string
		says string
	}{
		"no library":          {[]string{libEnv + "=/nonexistent/libcuda.so.1"}, "no CUDA driver: /nonexistent/libcuda.so.1: cannot open"},
		"not a driver":        {[]string{libEnv + "=libm.so.6"}, "no CUDA driver: libm.so.6 exports no cuInit"},
		"no device":           {[]string{lib, "FAKE_CUDA_DEVICES=0"}, "no CUDA-capable device (CUDA error 100)"},
		"init: no device":     {[]string{lib, "FAKE_CUDA_INIT=100"}, "cuInit: no CUDA-capable device (CUDA error 100)"},
		"init: wrong library": {[]string{lib, "FAKE_CUDA_INIT=803"}, "does not match the loaded kernel module"},
		"init: unknown":       {[]string{lib, "FAKE_CUDA_INIT=999"}, "unknown error (CUDA error 999)"},
		"init: stub library":  {[]string{lib, "FAKE_CUDA_INIT=34"}, "no CUDA driver: the library found is the CUDA toolkit's stub"},
		"a device":            {[]string{lib}, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) { assert.Contains(t, child(t, c.env...), c.says) })
	}

	file, err := elf.Open(os.Args[0])
	require.NoError(t, err)
	defer file.Close()
	libs, err := file.ImportedLibraries()
	require.NoError(t, err)
	assert.NotContains(t, libs, "libcuda.so.1")
	assert.NotContains(t, libs, "libcuda.so")
}

// A process starts without the driver: what cuInit does takes long, and is left
// to Open.
func TestStartCallsNothing(t *testing.T) {
	assert.Empty(t, atStart)
	open(t)
	assert.Contains(t, fake.Trace(), "cuInit")
}

// All tests again with a driver of CUDA 11.0.
func TestOldDriver(t *testing.T) {
	if oldDriver {
		return
	}
	cmd := exec.Command(os.Args[0], "-test.skip=^(TestOneBinary|TestEnv.*|TestVendored)$")
	cmd.Env = environ(dirEnv+"="+os.Getenv(dirEnv), libEnv+"="+library(fake.OldDriver))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "PASS")
}
