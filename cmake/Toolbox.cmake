# Toolbox.cmake - compiler flags, dependencies, and the few functions with which every folder declares its targets.

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Werror -Wno-missing-field-initializers
                    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
                    $<$<COMPILE_LANGUAGE:C,CXX>:-Wvla> $<$<COMPILE_LANGUAGE:C,CXX>:-fvisibility=hidden>
                    # Functions and lines, which stacks have. A debugger's variables take a tenth of the time: CMAKE_BUILD_TYPE=Debug.
                    $<$<CONFIG:RelWithDebInfo>:-g1>)

if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
    add_compile_options(-Wno-stringop-overflow) # it takes an array after a counter for the counter
endif()

set(DDPRUN_SANITIZE "" CACHE STRING "Sanitizers for everything, as in -fsanitize= (address,undefined or thread)")
if(DDPRUN_SANITIZE)
    # A report needs only lines of the debug information, and AddressSanitizer's own work is what its tests' time goes to: this takes
    # the time of a compilation to a third. Warnings are the release's part.
    if(DDPRUN_SANITIZE MATCHES thread)
        add_compile_options(-O1 -g1 -w)
    else()
        add_compile_options(-O0 -g1 -w)
    endif()
    add_compile_options(-fsanitize=${DDPRUN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${DDPRUN_SANITIZE})
    # Trainers are users' programs: not instrumented. The runtime that the libraries beneath them need is preloaded.
    set(TRAINER_OPTIONS -Xlinker --allow-shlib-undefined)
    # A runtime that is linked only would come after what ddprun preloads, and refuse to start.
    if(DDPRUN_SANITIZE MATCHES address)
        execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libasan.so
                        OUTPUT_VARIABLE asan_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
        set(PRELOADED_RUNTIME LD_PRELOAD=${asan_runtime} ASAN_OPTIONS=detect_leaks=0)
    endif()
endif()

set(DDPRUN_SOAK "" CACHE STRING "1: a build with a sanitizer has the stand-in's own tests")
# PROGRAM_CC: what compiles users' programs for the stand-in. They are the same in all builds.
set(DDPRUN_PROGRAMS "" CACHE PATH "Build folder of the same sources, without a sanitizer, whose programs are copied and not compiled anew")
if(DDPRUN_SANITIZE AND DDPRUN_PROGRAMS)
    set(PROGRAM_CC bash ${CMAKE_SOURCE_DIR}/cmake/copy_program.sh ${DDPRUN_PROGRAMS} ${CMAKE_BINARY_DIR} $<TARGET_FILE:softgpu-cc>)
else()
    set(PROGRAM_CC softgpu-cc)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(PMIX REQUIRED IMPORTED_TARGET pmix)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(UNWIND_PTRACE REQUIRED IMPORTED_TARGET libunwind-ptrace)
pkg_check_modules(DW REQUIRED IMPORTED_TARGET libdw libelf)
pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(JSON REQUIRED IMPORTED_TARGET json-c)

# Linked in: what is loaded into the trainer may need glibc only. Of libcrypto SHA-256 alone is used (base/seal.c).
find_library(CRYPTO_STATIC libcrypto.a REQUIRED)
find_library(XXHASH_STATIC libxxhash.a REQUIRED)
add_library(crypto_static STATIC IMPORTED GLOBAL)
add_library(xxhash_static STATIC IMPORTED GLOBAL)
set_target_properties(crypto_static PROPERTIES IMPORTED_LOCATION ${CRYPTO_STATIC})
set_target_properties(xxhash_static PROPERTIES IMPORTED_LOCATION ${XXHASH_STATIC} INTERFACE_INCLUDE_DIRECTORIES "${XXHASH_INCLUDE_DIRS}")

# CUDA and NCCL: headers only. Nothing here links a CUDA library; all of them are opened or interposed at run time.
include(Cuda)
include(Kernels)
if(NOT CUDA_INCLUDE_DIR OR NOT CUDA_CCCL_DIR OR NOT CUDA_PROFILER_DIR OR NOT NCCL_INCLUDE_DIR OR NOT CUBLAS_INCLUDE_DIR
   OR NOT CURAND_INCLUDE_DIR)
    foreach(rejected ${CUDA_REJECTED})
        message(STATUS "Not usable, ${cuda_wanted_major} is needed: ${rejected}")
    endforeach()
    message(FATAL_ERROR "CUDA ${cuda_wanted_major} or NCCL headers not found: set CUDA_HOME, or run `bash cmake/setup.sh`, which fetches them")
endif()
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE
                           ${CUDA_INCLUDE_DIR} ${CUDA_CCCL_DIR} ${CUDA_PROFILER_DIR} ${CUBLAS_INCLUDE_DIR} ${CURAND_INCLUDE_DIR}
                           ${NCCL_INCLUDE_DIR})

# ddprun_shared_library(name VERSION_SCRIPT file [SOURCES ...] [LIBRARIES ...]): a library whose exports are exactly those
# of its linker version script.
function(ddprun_shared_library name)
    cmake_parse_arguments(ARG "" "VERSION_SCRIPT" "SOURCES;LIBRARIES" ${ARGN})
    add_library(${name} SHARED ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES})
    target_link_options(${name} PRIVATE -Wl,--version-script=${ARG_VERSION_SCRIPT})
    if(NOT DDPRUN_SANITIZE) # a sanitizer's runtime comes with the program, not with the library
        target_link_options(${name} PRIVATE -Wl,-z,defs)
    endif()
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${ARG_VERSION_SCRIPT})
endfunction()

# ddprun_compile_quickly(name): what waits for processes and files, or runs for less time than its compilation takes.
function(ddprun_compile_quickly name)
    if(NOT DDPRUN_SANITIZE)
        target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
    endif()
endfunction()

# ddprun_parse_once(name header...): the compiler reads these headers once for all C files of the target: reading cuda.h takes a fifth
# of a compilation. Each file still includes what it uses: with a sanitizer, with ccache and in tests/lint all headers are read again.
# Headers of the project stand relative to its folder, those of the system as <name.h>.
function(ddprun_parse_once name)
    if(NOT DDPRUN_SANITIZE AND NOT CMAKE_C_COMPILER_LAUNCHER)
        list(TRANSFORM ARGN REPLACE "^([^<].*)" "${CMAKE_SOURCE_DIR}/\\1")
        target_precompile_headers(${name} PRIVATE ${ARGN})
    endif()
endfunction()

# ddprun_no_padded_rpath(name): without this CMake links with room for another RPATH, filled up with ':', and for the loader
# an empty entry is the current folder: libraries would be taken from wherever the program is started.
function(ddprun_no_padded_rpath name)
    set_target_properties(${name} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()

include(OldGlibc)

# In front of a test's command, with its limit in seconds of a quiet machine: COMMAND ${PATIENCE} 60 program. TIMEOUT is ctest's,
# which follows no load, and is far above.
set(PATIENCE bash ${CMAKE_SOURCE_DIR}/tests/lib/patience.sh)

# The frame of unit tests (tests/lib/test.h). Without a sanitizer, as some of the tests that link it are.
add_library(test_frame STATIC EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/lib/test.c)
target_compile_options(test_frame PRIVATE -fno-sanitize=all)
target_include_directories(test_frame PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(test_frame PUBLIC PkgConfig::CHECK)

# ddprun_unit_test(name [SOURCES ...] [LIBRARIES ...]): a Check program that tests/run.sh finds in build/tests/unit.
function(ddprun_unit_test name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    if(NOT DDPRUN_SANITIZE)
        target_compile_options(${name} PRIVATE -O1 -g1) # it runs for less time than its compilation takes
    endif()
    target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} test_frame Threads::Threads m)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
    add_test(NAME unit/${name} COMMAND ${PATIENCE} 120 $<TARGET_FILE:${name}>)
    set_tests_properties(unit/${name} PROPERTIES TIMEOUT 3600 SKIP_RETURN_CODE 77 ENVIRONMENT "CK_FORK=no")
endfunction()
