/*
 * kernels.cu - all kernels in one, as they are compiled.
 */
#include "comm/kernels/hash.cu"
#include "comm/kernels/wire.cu"

#include "comm/kernels/outer.cu" /* behind what it uses of wire.cu */
