#pragma GCC system_header
#include <cub/softgpu_iterator.cuh>
