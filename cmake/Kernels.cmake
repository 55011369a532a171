# Kernels.cmake - device code of ddprun's own: for GPUs where there is an nvcc, beside the engine, and for the stand-in, beside its
# libraries. What is built from a folder's kernels.cu for GPUs is built from its stand_in.cu for the stand-in.
set(DDPRUN_GPU_ARCHITECTURES "" CACHE STRING "nvcc -arch= of the kernels that run on GPUs; empty: all-major")

# What has kernels for GPUs has them for drivers of CUDA 12, too: there is no package without them.
set(no_ptxas_12 "the kernels for drivers of CUDA 12 need ptxas of CUDA 12.9: run `bash cmake/setup.sh`, which fetches it, and configure again")
if(NVCC AND NOT PTXAS_12 AND NOT DDPRUN_SANITIZE)
    message(STATUS "No packages: ${no_ptxas_12}")
    add_custom_target(no_ptxas_12 COMMAND ${CMAKE_COMMAND} -E echo "${no_ptxas_12}" COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
    install(CODE "message(FATAL_ERROR \"${no_ptxas_12}\")" COMPONENT ddprun)
endif()

# ddprun_cuda12_kernels(target name sources): NAME-cuda12.fatbin, by `target`_cuda12 (Cuda12Kernels.cmake), from kernels.cu of this folder:
# with code for the major architectures from Volta on, or for the one of DDPRUN_GPU_ARCHITECTURES. A GPU runs code for an earlier one of
# the same generation (CUDA C++ Programming Guide, "Binary Compatibility"): Turing, 7.5, that of Volta, 7.0.
function(ddprun_cuda12_kernels target name sources)
    set(architectures 70 80 90 100 120)
    if(DDPRUN_GPU_ARCHITECTURES MATCHES "^sm_([0-9]+)$")
        set(architectures ${CMAKE_MATCH_1})
    endif()
    list(JOIN architectures " " architectures)
    get_filename_component(bin ${NVCC} DIRECTORY)
    set(fatbin ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${name}-cuda12.fatbin)
    add_custom_command(
        OUTPUT ${fatbin}
        COMMAND ${CMAKE_COMMAND} -DNVCC=${NVCC} -DFATBINARY=${bin}/fatbinary -DPTXAS=${PTXAS_12} "-DARCHITECTURES=${architectures}"
                -DINCLUDE=${CMAKE_SOURCE_DIR} -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}/kernels.cu -DWORK=${CMAKE_CURRENT_BINARY_DIR}/cuda12
                -DOUTPUT=${fatbin} -P ${CMAKE_SOURCE_DIR}/cmake/Cuda12Kernels.cmake
        DEPENDS ${sources} ${CMAKE_CURRENT_SOURCE_DIR}/kernels.cu ${CMAKE_SOURCE_DIR}/cmake/Cuda12Kernels.cmake
        COMMENT "Compiling ${fatbin}" VERBATIM)
    add_custom_target(${target}_cuda12 ALL DEPENDS ${fatbin})
    install(FILES ${fatbin} DESTINATION lib/ddprun COMPONENT ddprun)
endfunction()

# ddprun_kernels(target name [SOURCES file...] [C file...]): libNAME.so of the stand-in, by `target`, NAME.fatbin, by `target`_gpu, and
# NAME-cuda12.fatbin.
# SOURCES: what both are made from besides, C: what the former is.
function(ddprun_kernels target name)
    cmake_parse_arguments(ARG "" "" "SOURCES;C" ${ARGN})
    set(here ${CMAKE_CURRENT_SOURCE_DIR})
    set(library ${SOFTGPU_LIBRARY_DIR}/lib${name}.so)
    set(objects ${CMAKE_CURRENT_BINARY_DIR}/stand_in.o)
    add_custom_command(
        OUTPUT ${objects}
        # Its folder is that of an installed stand-in: nothing looks there, for the stand-in has loaded this library.
        COMMAND ${PROGRAM_CC} -c -U__SOFTGPU_FOLDER__ "-D__SOFTGPU_FOLDER__=\"/usr/lib/softgpu\""
                -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics
                -I${CMAKE_SOURCE_DIR} -I${SOFTGPU_SOURCE_DIR}/include ${here}/stand_in.cu -o ${objects}
        DEPENDS ${ARG_SOURCES} ${here}/kernels.cu ${here}/stand_in.cu ${SOFTGPU_SOURCE_DIR}/include/softgpu/convert.h softgpu-cc softgpu
        COMMENT "Compiling ${objects}" VERBATIM)
    foreach(source IN LISTS ARG_C)
        get_filename_component(stem ${source} NAME_WE)
        set(object ${CMAKE_CURRENT_BINARY_DIR}/${stem}.o)
        add_custom_command(
            OUTPUT ${object}
            COMMAND ${CMAKE_C_COMPILER} -c -O3 -std=gnu17 -fPIC -fvisibility=hidden -I${CMAKE_SOURCE_DIR} ${source} -o ${object}
            DEPENDS ${source} ${ARG_SOURCES}
            COMMENT "Compiling ${object}" VERBATIM)
        list(APPEND objects ${object})
    endforeach()
    # Linked by hand, so that it finds its neighbours wherever they are installed; as C, because the trainer may have another C++
    # library. The statics of stubs are made while all kernels are asked for, in one thread.
    add_custom_command(
        OUTPUT ${library}
        COMMAND ${CMAKE_C_COMPILER} -shared -Wl,-z,defs -Wl,-z,nodelete -Wl,-soname,lib${name}.so -Wl,-rpath,$ORIGIN
                ${objects} $<TARGET_FILE:softgpu> $<TARGET_FILE:softgpu_cudart> -o ${library}
        DEPENDS ${objects} softgpu softgpu_cudart
        COMMENT "Linking ${library}" VERBATIM)
    add_custom_target(${target} ALL DEPENDS ${library})

    # Code for each generation of GPUs that this nvcc knows, which all of its members run, and PTX for those to come. Sanitizers have
    # no say in it.
    if(NVCC AND NOT DDPRUN_SANITIZE)
        set(architectures all-major)
        if(DDPRUN_GPU_ARCHITECTURES)
            set(architectures ${DDPRUN_GPU_ARCHITECTURES})
        endif()
        set(fatbin ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${name}.fatbin)
        add_custom_command(
            OUTPUT ${fatbin}
            COMMAND ${NVCC} -fatbin -arch=${architectures} -O3 -I${CMAKE_SOURCE_DIR} ${here}/kernels.cu -o ${fatbin}
            DEPENDS ${ARG_SOURCES} ${here}/kernels.cu
            COMMENT "Compiling ${fatbin}" VERBATIM)
        add_custom_target(${target}_gpu ALL DEPENDS ${fatbin})
        install(FILES ${fatbin} DESTINATION lib/ddprun COMPONENT ddprun)
        if(PTXAS_12)
            ddprun_cuda12_kernels(${target} ${name} "${ARG_SOURCES}")
        endif()
    endif()
endfunction()
