# Portable.cmake - softgpu-cc and its libraries for other systems than this one, and the wheel that has them: cmake --build BUILD --target
# softgpu_wheel. The objects of the build are linked once more, for an older glibc (OldGlibc.cmake), and with OpenBLAS in libcublas: they
# need glibc and no other library.
set(SOFTGPU_PORTABLE_DIR ${CMAKE_CURRENT_BINARY_DIR}/portable CACHE INTERNAL "")
find_library(STATIC_OPENBLAS libopenblas.a)
mark_as_advanced(STATIC_OPENBLAS)
if(NOT STATIC_OPENBLAS OR SOFTGPU_SANITIZE)
    add_custom_target(softgpu_wheel VERBATIM COMMAND ${CMAKE_COMMAND} -E echo
        "softgpu_wheel: no libopenblas.a, or a build with a sanitizer: install Debian's libopenblas-dev, and configure again" COMMAND false)
    return()
endif()

# softgpu_portable(name OBJECTS target... [LIBRARIES ...]): one of the programs or libraries, linked once more with its options.
function(softgpu_portable name)
    cmake_parse_arguments(ARG "" "" "OBJECTS;LIBRARIES" ${ARGN})
    list(TRANSFORM ARG_OBJECTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    get_target_property(type ${name} TYPE)
    set(output ${name})
    if(type STREQUAL "EXECUTABLE")
        add_executable(portable_${name} EXCLUDE_FROM_ALL ${ARG_OBJECTS})
    else()
        add_library(portable_${name} SHARED EXCLUDE_FROM_ALL ${ARG_OBJECTS})
        get_target_property(options ${name} LINK_OPTIONS)
        get_target_property(output ${name} OUTPUT_NAME)
        target_link_options(portable_${name} PRIVATE ${options})
        set_target_properties(portable_${name} PROPERTIES PREFIX "" SUFFIX "" NO_SONAME ON INSTALL_RPATH $ORIGIN)
    endif()
    set_target_properties(portable_${name} PROPERTIES OUTPUT_NAME ${output} LINKER_LANGUAGE C BUILD_WITH_INSTALL_RPATH ON
        RUNTIME_OUTPUT_DIRECTORY ${SOFTGPU_PORTABLE_DIR}/bin LIBRARY_OUTPUT_DIRECTORY ${SOFTGPU_PORTABLE_DIR}/lib/softgpu)
    target_link_libraries(portable_${name} PRIVATE ${ARG_LIBRARIES} -lm)
    softgpu_old_glibc(portable_${name})
    add_dependencies(softgpu_portable_parts portable_${name})
    install(TARGETS portable_${name} RUNTIME DESTINATION bin COMPONENT softgpu_portable EXCLUDE_FROM_ALL
            LIBRARY DESTINATION lib/softgpu COMPONENT softgpu_portable EXCLUDE_FROM_ALL)
endfunction()

add_custom_target(softgpu_portable_parts)
add_custom_target(softgpu_wheel VERBATIM COMMAND python3 ${SOFTGPU_SOURCE_DIR}/wheel/build.py ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/wheel)
add_dependencies(softgpu_wheel softgpu_portable_parts softgpu-cc softgpu_cc_files softgpu_installed man_softgpu-cc.1)
softgpu_portable(softgpu_cuda OBJECTS softgpu_cuda)
softgpu_portable(softgpu OBJECTS softgpu softgpu_convert)
softgpu_portable(softgpu_cudart OBJECTS softgpu_cudart LIBRARIES portable_softgpu)
softgpu_portable(softgpu_cublas OBJECTS softgpu_cublas softgpu_cublas_core softgpu_library_common LIBRARIES ${STATIC_OPENBLAS})
softgpu_portable(softgpu_cublaslt OBJECTS softgpu_cublaslt softgpu_cublaslt_core softgpu_cublas_core softgpu_library_common
                 LIBRARIES ${STATIC_OPENBLAS})
softgpu_portable(softgpu_curand OBJECTS softgpu_curand softgpu_curand_core softgpu_library_common)
softgpu_portable(softgpu_nvrtc13 OBJECTS softgpu_nvrtc13)
softgpu_portable(softgpu_nvrtc12 OBJECTS softgpu_nvrtc12)
softgpu_portable(softgpu_nccl OBJECTS softgpu_nccl softgpu_nccl_core softgpu_library_common softgpu_convert)
softgpu_portable(softgpu-cc OBJECTS softgpu-cc softgpu_rewriter softgpu_text)
