# ddprunConfig.cmake - find_package(ddprun) gives the target ddprun::ddprun: the annotations' header, nothing to link but libdl.
get_filename_component(ddprun_prefix ${CMAKE_CURRENT_LIST_DIR}/../../.. REALPATH)
if(NOT TARGET ddprun::ddprun)
    add_library(ddprun::ddprun INTERFACE IMPORTED)
    set_target_properties(ddprun::ddprun PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES ${ddprun_prefix}/include
        INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
set(DDPRUN_EXECUTABLE ${ddprun_prefix}/bin/ddprun)
