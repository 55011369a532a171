# OldGlibc.cmake - links for an older glibc than this machine's. Included by Toolbox.cmake.
include_guard(GLOBAL)
set(OLD_GLIBC 2.28 CACHE INTERNAL "") # and later
set(old_glibc_dir ${CMAKE_BINARY_DIR}/glibc-${OLD_GLIBC} CACHE INTERNAL "")

file(GLOB old_glibc_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/portable/*)
add_custom_command(OUTPUT ${old_glibc_dir}/libc.so DEPENDS ${old_glibc_sources} VERBATIM
    COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/portable/old_glibc.sh ${old_glibc_dir} ${OLD_GLIBC} ${CMAKE_C_COMPILER})
add_custom_target(old_glibc DEPENDS ${old_glibc_dir}/libc.so)

# softgpu_old_glibc(name): the target asks for no newer symbol of glibc.
function(softgpu_old_glibc name)
    add_dependencies(${name} old_glibc)
    target_link_options(${name} PRIVATE -B${old_glibc_dir}/ -L${old_glibc_dir})
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${old_glibc_dir}/libc.so)
endfunction()
