# OldGlibc.cmake - links for an older glibc than this machine's. Included by Toolbox.cmake.
set(OLD_GLIBC 2.28) # and later
set(old_glibc_dir ${CMAKE_BINARY_DIR}/glibc-${OLD_GLIBC})

file(GLOB old_glibc_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/portable/*)
add_custom_command(OUTPUT ${old_glibc_dir}/libc.so DEPENDS ${old_glibc_sources} VERBATIM
    COMMAND bash ${CMAKE_SOURCE_DIR}/cmake/portable/old_glibc.sh ${old_glibc_dir} ${OLD_GLIBC} ${CMAKE_C_COMPILER})
add_custom_target(old_glibc DEPENDS ${old_glibc_dir}/libc.so)

# ddprun_old_glibc(name): the target asks for no newer symbol of glibc.
function(ddprun_old_glibc name)
    add_dependencies(${name} old_glibc)
    target_link_options(${name} PRIVATE -B${old_glibc_dir}/ -L${old_glibc_dir})
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${old_glibc_dir}/libc.so)
endfunction()
