# Toolbox.cmake - compiler flags, CUDA's headers, and the functions with which each folder declares its targets. A project around this
# folder may include it first, for itself and for this folder: with SOFTGPU_SANITIZE and SOFTGPU_SOAK as it wants them.
include_guard(DIRECTORY) # here and below

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers
                    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
                    $<$<COMPILE_LANGUAGE:C,CXX>:-Wvla> $<$<COMPILE_LANGUAGE:C,CXX>:-fvisibility=hidden>
                    # Functions and lines, which stacks have. A debugger's variables take a tenth of the time: CMAKE_BUILD_TYPE=Debug.
                    $<$<CONFIG:RelWithDebInfo>:-g1>)
if(PROJECT_IS_TOP_LEVEL)
    add_compile_options(-Werror)
endif()

if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
    add_compile_options(-Wno-stringop-overflow) # it takes an array after a counter for the counter
endif()

set(SOFTGPU_SANITIZE "" CACHE STRING "Sanitizers for everything, as in -fsanitize= (address,undefined or thread)")
set(SOFTGPU_SOAK "" CACHE STRING "1: a build with a sanitizer has this folder's tests, too")
if(SOFTGPU_SANITIZE)
    # A report needs only lines of the debug information, and AddressSanitizer's own work is what its tests' time goes to: this takes
    # the time of a compilation to a third. Warnings are the release's part.
    if(SOFTGPU_SANITIZE MATCHES thread)
        add_compile_options(-O1 -g1 -w)
    else()
        add_compile_options(-O0 -g1 -w)
    endif()
    add_compile_options(-fsanitize=${SOFTGPU_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${SOFTGPU_SANITIZE})
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)

# CUDA and NCCL: headers only. Nothing here links a CUDA library; all of them are opened or interposed at run time.
include(${CMAKE_CURRENT_LIST_DIR}/Cuda.cmake)
if(NOT CUDA_INCLUDE_DIR OR NOT CUDA_CCCL_DIR OR NOT CUDA_PROFILER_DIR OR NOT NCCL_INCLUDE_DIR OR NOT CUBLAS_INCLUDE_DIR
   OR NOT CURAND_INCLUDE_DIR OR NOT NVRTC_INCLUDE_DIR)
    foreach(rejected ${CUDA_REJECTED})
        message(STATUS "Not usable, ${cuda_wanted_major} is needed: ${rejected}")
    endforeach()
    message(FATAL_ERROR "CUDA ${cuda_wanted_major} or NCCL headers not found: set CUDA_HOME${CUDA_HEADERS_ADVICE}")
endif()
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE
                           ${CUDA_INCLUDE_DIR} ${CUDA_CCCL_DIR} ${CUDA_PROFILER_DIR} ${CUBLAS_INCLUDE_DIR} ${CURAND_INCLUDE_DIR}
                           ${NVRTC_INCLUDE_DIR} ${NCCL_INCLUDE_DIR})

# softgpu_exports(name VERSION_SCRIPT file [SOURCES ...] [LIBRARIES ...]): a shared library whose exports are exactly those of its linker
# version script.
function(softgpu_exports name)
    cmake_parse_arguments(ARG "" "VERSION_SCRIPT" "SOURCES;LIBRARIES" ${ARGN})
    add_library(${name} SHARED ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES})
    target_link_options(${name} PRIVATE -Wl,--version-script=${ARG_VERSION_SCRIPT})
    if(NOT SOFTGPU_SANITIZE) # a sanitizer's runtime comes with the program, not with the library
        target_link_options(${name} PRIVATE -Wl,-z,defs)
    endif()
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${ARG_VERSION_SCRIPT})
endfunction()

# softgpu_compile_quickly(name): what waits for processes and files, or runs for less time than its compilation takes.
function(softgpu_compile_quickly name)
    if(NOT SOFTGPU_SANITIZE)
        target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
    endif()
endfunction()

# softgpu_parse_once(name header...): the compiler reads these headers, paths or <name.h>, once for all C files of the target: reading
# cuda.h takes a fifth of a compilation. Each file still includes what it uses: with a sanitizer and with ccache all headers are read again.
function(softgpu_parse_once name)
    if(NOT SOFTGPU_SANITIZE AND NOT CMAKE_C_COMPILER_LAUNCHER)
        target_precompile_headers(${name} PRIVATE ${ARGN})
    endif()
endfunction()
