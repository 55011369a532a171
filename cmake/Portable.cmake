# Portable.cmake - the product for other systems than this one, as a tarball and a wheel: cmake --build build --target portable
#
# The objects of the build are linked once more: for an older glibc (softgpu/cmake/OldGlibc.cmake), and with this system's static
# libraries, of which nothing is shown, in them. So they need glibc and no other library. `libddprun-pmix.so` alone needs
# libpmix.so.2: ddprun opens it where a cluster's launcher is.
# The other files of the packages come by the rules of Install.cmake, which is included later.
set(portable_dir ${CMAKE_BINARY_DIR}/portable)

# Libraries that are linked in, with Debian's package of each, whose file `copyright` goes with it.
set(portable_missing)
foreach(part xxhash:libxxhash-dev dw:libdw-dev elf:libelf-dev hwloc:libhwloc-dev json-c:libjson-c-dev unwind-ptrace:libunwind-dev
        unwind-generic:libunwind-dev unwind:libunwind-dev lzma:liblzma-dev bz2:libbz2-dev z:zlib1g-dev crypto:libssl-dev)
    string(REPLACE ":" ";" part ${part})
    list(GET part 0 archive)
    list(GET part 1 package)
    find_library(STATIC_${archive} lib${archive}.a)
    mark_as_advanced(STATIC_${archive})
    if(NOT STATIC_${archive})
        list(APPEND portable_missing ${package})
    endif()
    install(FILES /usr/share/doc/${package}/copyright DESTINATION share/doc/ddprun/licences RENAME ${package}
            COMPONENT portable EXCLUDE_FROM_ALL OPTIONAL)
endforeach()
set(portable_libraries ${STATIC_dw} ${STATIC_elf} ${STATIC_hwloc} ${STATIC_json-c} ${STATIC_unwind-ptrace} ${STATIC_unwind-generic}
    ${STATIC_unwind} ${STATIC_lzma} ${STATIC_bz2} ${STATIC_z} ${STATIC_crypto} ${STATIC_xxhash} -lm)
if(portable_missing)
    list(JOIN portable_missing " " portable_missing)
    add_custom_target(portable VERBATIM COMMAND ${CMAKE_COMMAND} -E echo "portable: no static libraries of ${portable_missing}: install them, and configure again"
                      COMMAND false)
    return()
endif()

add_custom_target(portable_parts)
add_custom_target(portable VERBATIM
    COMMAND python3 ${CMAKE_SOURCE_DIR}/cmake/package/wheel.py ${CMAKE_BINARY_DIR} ${portable_dir} ${OLD_GLIBC})
add_dependencies(portable packaged portable_parts)

# ddprun_portable(name [OBJECTS target...] [LIBRARIES ...]): one of the product's programs or libraries, of the objects of the target
# `name`, or of OBJECTS, linked once more with its options, and with LIBRARIES in any order.
function(ddprun_portable name)
    cmake_parse_arguments(ARG "" "" "OBJECTS;LIBRARIES" ${ARGN})
    if(NOT ARG_OBJECTS)
        set(ARG_OBJECTS ${name})
    endif()
    list(TRANSFORM ARG_OBJECTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    list(TRANSFORM ARG_LIBRARIES REPLACE "^([a-z_]+)$" "$<TARGET_LINKER_FILE:\\1>")
    get_target_property(type ${name} TYPE)
    get_target_property(output ${name} OUTPUT_NAME)
    if(type STREQUAL "EXECUTABLE")
        add_executable(portable_${name} ${ARG_OBJECTS})
        set(output ${name})
        target_link_options(portable_${name} PRIVATE -no-pie) # Debian's libunwind.a is not position-independent
    else()
        add_library(portable_${name} SHARED ${ARG_OBJECTS})
        get_target_property(options ${name} LINK_OPTIONS)
        target_link_options(portable_${name} PRIVATE ${options})
    endif()
    set_target_properties(portable_${name} PROPERTIES OUTPUT_NAME ${output} LINKER_LANGUAGE C EXCLUDE_FROM_ALL ON
        RUNTIME_OUTPUT_DIRECTORY ${portable_dir}/bin LIBRARY_OUTPUT_DIRECTORY ${portable_dir}/lib)
    target_link_options(portable_${name} PRIVATE -Wl,--build-id=none) # which differs from folder to folder
    ddprun_no_padded_rpath(portable_${name})
    target_link_libraries(portable_${name} PRIVATE -Wl,--start-group ${ARG_LIBRARIES} -Wl,--end-group)
    ddprun_old_glibc(portable_${name})
    add_dependencies(portable_${name} ${name})
    add_dependencies(portable_parts portable_${name})
    install(TARGETS portable_${name} RUNTIME DESTINATION bin COMPONENT portable EXCLUDE_FROM_ALL
            LIBRARY DESTINATION lib/ddprun COMPONENT portable EXCLUDE_FROM_ALL)
endfunction()

ddprun_portable(ddprun LIBRARIES tools launcher bucketing check_base scout_base near softgpu_text base ${portable_libraries})
ddprun_portable(shim)
ddprun_portable(files)
ddprun_portable(engine OBJECTS engine_objects LIBRARIES bucketing comm base ${STATIC_crypto} ${STATIC_xxhash} -lm)
ddprun_portable(check_engine OBJECTS engine_objects check_objects LIBRARIES check_base near bucketing comm base ${STATIC_crypto} ${STATIC_xxhash} -lm)
ddprun_portable(scout LIBRARIES scout_base check_base near comm base ${STATIC_crypto} ${STATIC_xxhash} -lm)
ddprun_portable(pmix_member LIBRARIES ${PMIX_LINK_LIBRARIES})
