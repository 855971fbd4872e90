#!/bin/sh
# Builds the peer programs, and compiles every kernel of ptxrun with nvcc, to
# PTX and to machine code, for the GPU of this machine. Needs nvcc, not Go.
#
#     bench/peers/build.sh [OUT]      OUT is out/peers by default
#
# What nvcc says of registers, shared and local memory is in OUT/nvcc/*.log.
set -eu
cd "$(dirname "$0")/../.."
out=${1:-out/peers}
mkdir -p "$out/nvcc"

capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
nvcc -O3 -std=c++17 -arch="sm_$capability" -o "$out/seeds" bench/peers/seeds.cu

# The second line of each built file names its source and macros.
failed=0
for ptx in ptx/sm_70/*.ptx; do
    name=$(basename "$ptx" .ptx)
    command=$(sed -n 2p "$ptx")
    source=ptx/src/${command##* }
    defines=$(printf '%s\n' $command | grep '^-D' | tr '\n' ' ')
    log=$out/nvcc/$name.log
    # shellcheck disable=SC2086 # defines are words
    if nvcc -std=c++17 -fmad=false -arch="compute_$capability" -ptx $defines -o "$out/nvcc/$name.ptx" "$source" >"$log" 2>&1 &&
        nvcc -std=c++17 -fmad=false -arch="sm_$capability" -cubin -Xptxas -v $defines -o "$out/nvcc/$name.cubin" "$source" >>"$log" 2>&1; then
        continue
    fi
    echo "$name does not compile with nvcc:" >&2
    cat "$log" >&2
    failed=1
done
if grep -l '[1-9][0-9]\{2,\} bytes spill' "$out"/nvcc/*.log; then
    echo "these modules have kernels that spill 100 bytes and more" >&2
    failed=1
fi
[ "$failed" = 0 ] && echo "$(ls "$out"/nvcc/*.cubin | wc -l) modules compile with nvcc"
exit "$failed"
