# Kernels.cmake - device code of ddprun's own: for GPUs where there is an nvcc, beside the engine, and for the stand-in, beside its
# libraries. What is built from a folder's kernels.cu for GPUs is built from its stand_in.cu for the stand-in.
set(DDPRUN_GPU_ARCHITECTURES "" CACHE STRING "nvcc -arch= of the kernels that run on GPUs; empty: all-major")

# ddprun_kernels(target name [SOURCES file...] [C file...]): libNAME.so of the stand-in, by `target`, and NAME.fatbin, by `target`_gpu.
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
    endif()
endfunction()
