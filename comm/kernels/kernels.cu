/*
 * kernels.cu - all kernels in one, as they are compiled.
 */
#include "comm/kernels/hash.cu"

#include "comm/kernels/nonfinite.cu"

#include "comm/kernels/wire.cu" /* after what it uses of nonfinite.cu */

#include "comm/kernels/values.cu" /* after what it uses of wire.cu */
