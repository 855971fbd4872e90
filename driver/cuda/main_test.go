//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ptxrun/ptxrun/driver"
	"github.com/ptxrun/ptxrun/driver/cuda"
	"github.com/ptxrun/ptxrun/driver/cuda/fake"
)

// These tests run on a fake driver library. It has to be there when the process
// starts, so TestMain builds it and starts the process anew.
const (
	dirEnv   = "PTXRUN_TEST_DIR"   // where the fake libraries are
	childEnv = "PTXRUN_TEST_CHILD" // print what Open returns, and exit
	libEnv   = "PTXRUN_LIBCUDA"
)

// atStart are the driver calls made before main.
var atStart []string

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		_, err := cuda.Open(0)
		fmt.Print(err)
		os.Exit(0)
	}
	dir := os.Getenv(dirEnv)
	if dir == "" {
		if err := restart(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	atStart = fake.Trace()
	code := m.Run()
	if os.Getenv(libEnv) == library(fake.Driver) {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func library(variant string) string {
	return filepath.Join(os.Getenv(dirEnv), "libcuda"+variant+".so.1")
}

func restart() error {
	dir, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		return err
	}
	if _, err := fake.Build(dir, fake.OldDriver); err != nil {
		return err
	}
	lib, err := fake.Build(dir, fake.Driver)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(exe, os.Args, environ(dirEnv+"="+dir, libEnv+"="+lib))
}

// environ is the environment with some variables replaced.
func environ(set ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); name != libEnv && name != dirEnv && name != childEnv {
			env = append(env, kv)
		}
	}
	return append(env, set...)
}

// open opens device 0 of a fresh machine. When the test ends the device is
// closed, if it is not, and nothing may be live.
func open(t *testing.T) driver.Device {
	t.Helper()
	fake.Reset()
	d, err := cuda.Open(0)
	require.NoError(t, err)
	t.Cleanup(func() {
		fake.FailAt(0, "", 0)
		if err := d.Close(); err != nil {
			assert.ErrorIs(t, err, driver.ErrClosed)
		}
		assert.Equal(t, fake.Live{}, fake.Now(), "still live")
		assert.Zero(t, fake.WrongContext(), "calls without the context")
	})
	return d
}

func newStream(t *testing.T, d driver.Device) driver.Stream {
	t.Helper()
	s, err := d.NewStream()
	require.NoError(t, err)
	return s
}

func newEvent(t *testing.T, d driver.Device, timing bool) driver.Event {
	t.Helper()
	e, err := d.NewEvent(timing)
	require.NoError(t, err)
	return e
}

func alloc(t *testing.T, d driver.Device, bytes int64) driver.Ptr {
	t.Helper()
	p, err := d.Alloc(bytes)
	require.NoError(t, err)
	return p
}

const ptx = `.version 6.0
.target sm_70
.address_size 64
.visible .entry none()
{ ret; }
.visible .entry copy(
	.param .u64 .ptr .global .align 1 copy_param_0,
	.param .u64 copy_param_1,
	.param .u32 copy_param_2
)
{ ret; }
.visible .entry pack(
	.param .u8 a, .param .u16 b, .param .u8 c, .param .u32 d, .param .u64 e,
	.param .f32 f, .param .f64 g, .param .align 4 .b8 h[12], .param .align 16 .b8 i[16], .param .u8 j
)
{ ret; }
`

func load(t *testing.T, d driver.Device) driver.Module {
	t.Helper()
	m, err := d.Load(driver.Image{Name: "test.ptx", PTX: []byte(ptx)})
	require.NoError(t, err)
	return m
}

func kernel(t *testing.T, m driver.Module, name string) driver.Kernel {
	t.Helper()
	k, err := m.Kernel(name)
	require.NoError(t, err)
	return k
}

// fails asserts that err is an *Error with the code, and that it says text.
func fails(t *testing.T, err error, code driver.Code, text string) {
	t.Helper()
	var e *driver.Error
	if assert.ErrorAs(t, err, &e) {
		assert.ErrorIs(t, err, code)
		assert.Contains(t, err.Error(), text)
		assert.NotEmpty(t, e.Op)
	}
}

// since runs f and returns the driver calls that it made, but for those that
// make the context current.
func since(f func()) []string {
	n := fake.Calls()
	f()
	var calls []string
	for _, c := range fake.Trace()[n:] {
		if c != "cuCtxSetCurrent" {
			calls = append(calls, c)
		}
	}
	return calls
}

var oldDriver = os.Getenv(libEnv) == library(fake.OldDriver)
