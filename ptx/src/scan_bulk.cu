// The single-pass scan of one operator by bulk copies (sm_90). PTXRUN_OP is a
// class of op.cuh, PTXRUN_TYPE its type, PTXRUN_IN the type of the input,
// PTXRUN_NAME the suffix.

#include "scan_pass.cuh"

#define BULK(name, In, ...) PTXRUN_SCAN_BULK(name, In, __VA_ARGS__)
BULK(PTXRUN_NAME, PTXRUN_IN, ptxrun::PTXRUN_OP<PTXRUN_TYPE>)
