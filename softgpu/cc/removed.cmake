# removed.cmake - lib/softgpu/toolkit/removed, a toolkit's folder for programs of CUDA 12 and earlier that a C or C++ compiler compiles:
# CUDA's headers, with the members of cudaDeviceProp and the functions that CUDA 13 has removed. The build runs it, and of an installed
# stand-in the user: cmake -DCUDA_INCLUDE_DIR=/usr/local/cuda/include -P PREFIX/lib/softgpu/toolkit/removed.cmake
set(removed ${CMAKE_CURRENT_LIST_DIR}/removed)
file(REMOVE_RECURSE ${removed})

# In the order in which softgpu/cudart/device.c fills the reserved numbers.
set(members clockRate deviceOverlap kernelExecTimeoutEnabled computeMode maxTexture1DLinear memoryClockRate singleToDoublePrecisionPerfRatio)
set(declarations "")
foreach(member IN LISTS members)
    string(APPEND declarations "int ${member}; ")
endforeach()
list(LENGTH members count)

file(READ ${CUDA_INCLUDE_DIR}/driver_types.h text)
string(REGEX MATCH "struct [A-Za-z_ ]*cudaDeviceProp[ \r\n]*{[^}]*}" properties "${text}")
if(NOT properties MATCHES " int +reserved\\[([0-9]+)\\];" OR CMAKE_MATCH_1 LESS_EQUAL count)
    message("softgpu-cc: ${CUDA_INCLUDE_DIR}/driver_types.h has no reserved numbers in cudaDeviceProp; .c and .cpp files have to do without "
            "what CUDA 13 has removed: there is no folder lib/softgpu/toolkit/removed")
    return()
endif()
set(match "${CMAKE_MATCH_0}")
set(reserved ${CMAKE_MATCH_1})
math(EXPR rest "${reserved} - ${count}")
string(REPLACE "${match}" " ${declarations} int reserved[${rest}];" patched "${properties}")
string(REPLACE "${properties}" "${patched}" text "${text}")

# Compilers look for what a system header includes beside the file that a link points to, so each header is a file that reads NVIDIA's.
file(MAKE_DIRECTORY ${removed}/include)
file(GLOB names RELATIVE ${CUDA_INCLUDE_DIR} ${CUDA_INCLUDE_DIR}/*)
foreach(name IN LISTS names)
    if(name MATCHES "\\.h$")
        file(WRITE ${removed}/include/${name} "#include \"driver_types.h\"
#include \"${CUDA_INCLUDE_DIR}/${name}\"
#include \"softgpu_removed.h\"
")
    else()
        file(CREATE_LINK ${CUDA_INCLUDE_DIR}/${name} ${removed}/include/${name} SYMBOLIC)
    endif()
endforeach()
foreach(name bin lib64 nvvm)
    file(CREATE_LINK ../${name} ${removed}/${name} SYMBOLIC)
endforeach()
file(WRITE ${removed}/include/driver_types.h "${text}")
file(WRITE ${removed}/include/softgpu_removed.h "/* Generated: what CUDA 13 has removed, once NVIDIA's cuda_runtime_api.h is there. */
#if defined(__CUDA_RUNTIME_API_H__) && !defined(SOFTGPU_REMOVED_FUNCTIONS)
#define SOFTGPU_REMOVED_FUNCTIONS
#include <stddef.h>
#ifdef __cplusplus
static_assert
#else
_Static_assert
#endif
    (offsetof(struct cudaDeviceProp, reserved) - offsetof(struct cudaDeviceProp, clockRate) == ${count} * sizeof(int) &&
     sizeof(((struct cudaDeviceProp *)0)->reserved) == ${rest} * sizeof(int), \"cudaDeviceProp has NVIDIA's layout\");
#ifndef cudaThreadSynchronize /* softgpu-cc --allow-removed defines them as macros */
static inline cudaError_t cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
static inline cudaError_t cudaThreadExit(void) { return cudaDeviceReset(); }
static inline cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value) { return cudaDeviceSetLimit(limit, value); }
static inline cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit) { return cudaDeviceGetLimit(value, limit); }
static inline cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config) { return cudaDeviceSetCacheConfig(config); }
static inline cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config) { return cudaDeviceGetCacheConfig(config); }
#endif
#endif
")
