// The segmented scan of one operator on one type.
// PTXRUN_OP is a class of op.cuh, PTXRUN_TYPE its type, PTXRUN_NAME the suffix.

#include "scan_segmented.cuh"

PTXRUN_SCAN_SEGMENTED(PTXRUN_NAME, ptxrun::PTXRUN_OP<PTXRUN_TYPE>)
