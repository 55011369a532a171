# Cuda.cmake - where are the headers of CUDA 13 and NCCL, and is there a compiler?
#
# Looks in $CUDA_HOME, beside the nvcc on the PATH, in /usr/local/cuda, and in CUDA_WHEELS, the folder `nvidia` of NVIDIA's wheels for
# Python, if the file that includes this one sets it. `cmake -P Cuda.cmake` prints what it found. Nothing is cached: a toolkit that
# comes or goes is seen at the next configuration.
#
# Sets, each to "" if not found:
#   CUDA_INCLUDE_DIR    cuda.h, cuda_runtime.h, crt/     CUDA_CCCL_DIR       nv/target, cuda/std
#   CUBLAS_INCLUDE_DIR  cublas_v2.h                      CURAND_INCLUDE_DIR  curand.h
#   CUDA_PROFILER_DIR   cudaProfiler.h, part of the driver's interface
#   NVRTC_INCLUDE_DIR   nvrtc.h
#   NCCL_INCLUDE_DIR    nccl.h                           NCCL_LIBRARY        libnccl.so.2, for runs on a GPU
#   NVCC                with its toolkit of version 13   CUDA_LIBRARY_DIR    libcublas and libcudart to link with nvcc
#   PTXAS_12            the assembler of CUDA 12.9, for drivers of CUDA 12
#   CUDA_REJECTED       toolkits of another version, for messages

# The stand-in provides the libraries of this version.
set(cuda_wanted_major 13)

set(cuda_wheels "${CUDA_WHEELS}")
if(NOT cuda_wheels) # CUDA_HOME may be its folder cu13
    set(cuda_wheels "$ENV{CUDA_HOME}/..")
endif()

find_program(path_nvcc nvcc NO_CACHE)
set(cuda_homes $ENV{CUDA_HOME})
if(path_nvcc)
    file(REAL_PATH ${path_nvcc} path_nvcc)
    get_filename_component(path_nvcc ${path_nvcc}/../.. ABSOLUTE)
    list(APPEND cuda_homes ${path_nvcc})
endif()
list(APPEND cuda_homes /usr/local/cuda ${cuda_wheels}/cu13)

set(CUDA_REJECTED "")
set(CUDA_INCLUDE_DIR "")
foreach(home ${cuda_homes})
    foreach(include ${home}/include ${home}/targets/x86_64-linux/include)
        if(CUDA_INCLUDE_DIR OR NOT EXISTS ${include}/cuda.h)
            continue()
        endif()
        file(STRINGS ${include}/cuda.h line REGEX "^#define CUDA_VERSION +[0-9]+")
        string(REGEX MATCH "[0-9]+" version "${line}")
        if(NOT version)
            continue()
        endif()
        math(EXPR major "${version} / 1000")
        math(EXPR minor "${version} % 1000 / 10")
        if(NOT major EQUAL cuda_wanted_major)
            list(APPEND CUDA_REJECTED "${home} (CUDA ${major}.${minor})")
        elseif(EXISTS ${include}/cuda_runtime.h AND EXISTS ${include}/crt/host_defines.h)
            set(CUDA_INCLUDE_DIR ${include})
            set(cuda_home ${home})
        endif()
    endforeach()
endforeach()
list(REMOVE_DUPLICATES CUDA_REJECTED)

# cuda_find_header(variable header folders...): the first of the folders that holds the header.
function(cuda_find_header variable header)
    set(${variable} "" PARENT_SCOPE)
    foreach(folder ${ARGN})
        if(EXISTS ${folder}/${header})
            set(${variable} ${folder} PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()

set(cuda_wheel_include ${cuda_wheels}/cu13/include)
cuda_find_header(CUDA_CCCL_DIR nv/target ${CUDA_INCLUDE_DIR}/cccl ${CUDA_INCLUDE_DIR} ${cuda_wheel_include}/cccl)
cuda_find_header(CUDA_PROFILER_DIR cudaProfiler.h ${CUDA_INCLUDE_DIR} ${cuda_wheel_include})
cuda_find_header(CUBLAS_INCLUDE_DIR cublas_v2.h ${CUDA_INCLUDE_DIR} ${cuda_wheel_include})
cuda_find_header(CURAND_INCLUDE_DIR curand.h ${CUDA_INCLUDE_DIR} ${cuda_wheel_include})
cuda_find_header(NVRTC_INCLUDE_DIR nvrtc.h ${CUDA_INCLUDE_DIR} ${cuda_wheel_include})
cuda_find_header(NCCL_INCLUDE_DIR nccl.h ${CUDA_INCLUDE_DIR} $ENV{NCCL_HOME}/include /usr/include
                 /usr/local/include ${cuda_wheels}/nccl/include)

set(NVCC "")
set(CUDA_LIBRARY_DIR "")
if(CUDA_INCLUDE_DIR)
    foreach(home ${cuda_home} ${cuda_wheels}/cu13)
        if(NOT NVCC AND EXISTS ${home}/bin/nvcc)
            set(NVCC ${home}/bin/nvcc)
        endif()
        foreach(folder lib64 targets/x86_64-linux/lib lib)
            if(NOT CUDA_LIBRARY_DIR AND EXISTS ${home}/${folder}/libcublas.so)
                set(CUDA_LIBRARY_DIR ${home}/${folder})
            endif()
        endforeach()
    endforeach()
endif()

# Of the wheel, or what $PTXAS_12 names.
set(PTXAS_12 "$ENV{PTXAS_12}")
if(NOT PTXAS_12 AND EXISTS ${cuda_wheels}/cuda_nvcc/bin/ptxas)
    set(PTXAS_12 ${cuda_wheels}/cuda_nvcc/bin/ptxas)
endif()

find_file(NCCL_LIBRARY libnccl.so.2 NO_CACHE
          PATHS $ENV{NCCL_HOME}/lib ${CUDA_LIBRARY_DIR} /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib /usr/local/lib
          ${cuda_wheels}/nccl/lib NO_DEFAULT_PATH)
if(NOT NCCL_LIBRARY)
    set(NCCL_LIBRARY "")
endif()

if(CMAKE_SCRIPT_MODE_FILE)
    foreach(name CUDA_INCLUDE_DIR CUDA_CCCL_DIR CUDA_PROFILER_DIR CUBLAS_INCLUDE_DIR CURAND_INCLUDE_DIR NVRTC_INCLUDE_DIR NCCL_INCLUDE_DIR NVCC
            CUDA_LIBRARY_DIR NCCL_LIBRARY PTXAS_12 CUDA_REJECTED)
        execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${name}=${${name}}")
    endforeach()
endif()
