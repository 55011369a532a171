# Install.cmake - what `cmake --install` puts where. It is one component, `softgpu`, so that a project around this folder can pack it by
# itself. The libraries have the names of CUDA's, and therefore lie in a folder of their own that no loader searches. softgpu-cc finds
# them from its own place, so a prefix may be moved as a whole.
#
#   bin/softgpu-cc      lib/softgpu/ with toolkit/ for build systems      share/man, share/doc/softgpu

# softgpu_man_page(page folder version component source): folder/page.in, with what `source` (a program, a header, or a page of a document) says.
function(softgpu_man_page page folder version component source)
    set(page_in ${folder}/${page}.in)
    set(page_out ${CMAKE_BINARY_DIR}/package/${page})
    string(REGEX MATCH "[0-9]$" chapter ${page})
    add_custom_command(OUTPUT ${page_out} DEPENDS ${page_in} ${SOFTGPU_SOURCE_DIR}/cmake/man.sh ${source} VERBATIM
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/package
        COMMAND bash ${SOFTGPU_SOURCE_DIR}/cmake/man.sh ${page_in} ${version} ${source} > ${page_out})
    add_custom_target(man_${page} ALL DEPENDS ${page_out})
    install(FILES ${page_out} DESTINATION share/man/man${chapter} COMPONENT ${component})
endfunction()

set(SOFTGPU_DOCUMENT_DIR share/doc/softgpu CACHE STRING "Where the documents are installed")
mark_as_advanced(SOFTGPU_DOCUMENT_DIR)

# The files of lib/softgpu as the build laid them out, also those that a project around this folder has put there; only the link to CUDA's
# headers is the build machine's own, and the archives of its folder.
install(PROGRAMS ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/softgpu-cc DESTINATION bin COMPONENT softgpu)
install(DIRECTORY ${SOFTGPU_LIBRARY_DIR}/ DESTINATION lib/softgpu USE_SOURCE_PERMISSIONS COMPONENT softgpu
        PATTERN toolkit/include EXCLUDE
        PATTERN toolkit/removed EXCLUDE
        REGEX "libsoftgpu_[^/]*\\.a$" EXCLUDE) # those to install:
install(DIRECTORY ${SOFTGPU_INSTALLED_DIR}/ DESTINATION lib/softgpu COMPONENT softgpu)
install(CODE [[
    set(toolkit "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/softgpu/toolkit")
    file(REMOVE "${toolkit}/include")
    file(CREATE_LINK /usr/local/cuda/include "${toolkit}/include" SYMBOLIC)
]] COMPONENT softgpu)
install(FILES ${SOFTGPU_SOURCE_DIR}/docs/softgpu.md ${SOFTGPU_SOURCE_DIR}/docs/ci.md DESTINATION ${SOFTGPU_DOCUMENT_DIR} COMPONENT softgpu)
install(FILES ${SOFTGPU_SOURCE_DIR}/LICENSE DESTINATION ${SOFTGPU_DOCUMENT_DIR} RENAME copyright COMPONENT softgpu)
softgpu_man_page(softgpu-cc.1 ${SOFTGPU_SOURCE_DIR}/docs ${SOFTGPU_VERSION} softgpu $<TARGET_FILE:softgpu-cc>)
