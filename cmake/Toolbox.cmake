# Toolbox.cmake - dependencies, and the functions with which every folder declares its targets. Compiler flags, CUDA's headers and most
# of the functions are the stand-in's: softgpu/cmake/Toolbox.cmake.
set(DDPRUN_SANITIZE "" CACHE STRING "Sanitizers for everything, as in -fsanitize= (address,undefined or thread)")
set(DDPRUN_SOAK "" CACHE STRING "1: a build with a sanitizer has the stand-in's own tests")
set(SOFTGPU_SANITIZE ${DDPRUN_SANITIZE})
set(SOFTGPU_SOAK ${DDPRUN_SOAK})
set(SOFTGPU_DOCUMENT_DIR share/doc/ddprun-softgpu) # of the package
get_filename_component(CUDA_WHEELS ${CMAKE_SOURCE_DIR}/build/cuda/nvidia ABSOLUTE)
set(CUDA_HEADERS_ADVICE ", or run `bash cmake/setup.sh`, which fetches them")
include(${CMAKE_SOURCE_DIR}/softgpu/cmake/Toolbox.cmake)
include(${CMAKE_SOURCE_DIR}/softgpu/cmake/UnitTest.cmake)
target_include_directories(test_frame PUBLIC ${CMAKE_SOURCE_DIR})

if(DDPRUN_SANITIZE)
    # Trainers are users' programs: not instrumented. The runtime that the libraries beneath them need is preloaded.
    set(TRAINER_OPTIONS -Xlinker --allow-shlib-undefined)
    # A runtime that is linked only would come after what ddprun preloads, and refuse to start.
    if(DDPRUN_SANITIZE MATCHES address)
        execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libasan.so
                        OUTPUT_VARIABLE asan_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
        set(PRELOADED_RUNTIME LD_PRELOAD=${asan_runtime} ASAN_OPTIONS=detect_leaks=0)
    endif()
endif()

# PROGRAM_CC: what compiles users' programs for the stand-in. They are the same in all builds.
set(DDPRUN_PROGRAMS "" CACHE PATH "Build folder of the same sources, without a sanitizer, whose programs are copied and not compiled anew")
if(DDPRUN_SANITIZE AND DDPRUN_PROGRAMS)
    set(PROGRAM_CC bash ${CMAKE_SOURCE_DIR}/cmake/copy_program.sh ${DDPRUN_PROGRAMS} ${CMAKE_BINARY_DIR} $<TARGET_FILE:softgpu-cc>)
else()
    set(PROGRAM_CC softgpu-cc)
endif()

pkg_check_modules(PMIX REQUIRED IMPORTED_TARGET pmix)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(UNWIND_PTRACE REQUIRED IMPORTED_TARGET libunwind-ptrace)
pkg_check_modules(DW REQUIRED IMPORTED_TARGET libdw libelf)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(JSON REQUIRED IMPORTED_TARGET json-c)

# Linked in: what is loaded into the trainer may need glibc only. Of libcrypto SHA-256 alone is used (base/seal.c).
find_library(CRYPTO_STATIC libcrypto.a REQUIRED)
find_library(XXHASH_STATIC libxxhash.a REQUIRED)
add_library(crypto_static STATIC IMPORTED GLOBAL)
add_library(xxhash_static STATIC IMPORTED GLOBAL)
set_target_properties(crypto_static PROPERTIES IMPORTED_LOCATION ${CRYPTO_STATIC})
set_target_properties(xxhash_static PROPERTIES IMPORTED_LOCATION ${XXHASH_STATIC} INTERFACE_INCLUDE_DIRECTORIES "${XXHASH_INCLUDE_DIRS}")

include(Kernels)

# The stand-in's functions, by this project's names.
function(ddprun_shared_library)
    softgpu_exports(${ARGV})
endfunction()
function(ddprun_compile_quickly)
    softgpu_compile_quickly(${ARGV})
endfunction()
function(ddprun_unit_test)
    softgpu_unit_test(${ARGV})
endfunction()
function(ddprun_old_glibc)
    softgpu_old_glibc(${ARGV})
endfunction()

# ddprun_parse_once(name header...): softgpu_parse_once. Headers of the project stand relative to its folder, those of the system as <name.h>.
function(ddprun_parse_once name)
    list(TRANSFORM ARGN REPLACE "^([^<].*)" "${CMAKE_SOURCE_DIR}/\\1")
    softgpu_parse_once(${name} ${ARGN})
endfunction()

# ddprun_no_padded_rpath(name): without this CMake links with room for another RPATH, filled up with ':', and for the loader
# an empty entry is the current folder: libraries would be taken from wherever the program is started.
function(ddprun_no_padded_rpath name)
    set_target_properties(${name} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()

include(${CMAKE_SOURCE_DIR}/softgpu/cmake/OldGlibc.cmake)
