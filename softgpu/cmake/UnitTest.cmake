# UnitTest.cmake - how unit tests are declared. Included by tests/CMakeLists.txt, after Toolbox.cmake. A project around this folder may
# include it for its own tests.
include_guard(DIRECTORY)
pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)
get_filename_component(unit_test_root ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)

# In front of a test's command, with its limit in seconds of a quiet machine: COMMAND ${PATIENCE} 60 program. TIMEOUT is ctest's,
# which follows no load, and is far above.
set(PATIENCE bash ${unit_test_root}/tests/lib/patience.sh)

# The frame of unit tests (tests/lib/test.h). Without a sanitizer, as some of the tests that link it are.
add_library(test_frame STATIC EXCLUDE_FROM_ALL ${unit_test_root}/tests/lib/test.c)
target_compile_options(test_frame PRIVATE -fno-sanitize=all)
target_include_directories(test_frame PUBLIC ${unit_test_root})
target_link_libraries(test_frame PUBLIC PkgConfig::CHECK)

# softgpu_unit_test(name [SOURCES ...] [LIBRARIES ...]): a Check program, in tests/unit of the build folder.
function(softgpu_unit_test name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    if(NOT SOFTGPU_SANITIZE)
        target_compile_options(${name} PRIVATE -O1 -g1) # it runs for less time than its compilation takes
    endif()
    target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} test_frame Threads::Threads m)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
    add_test(NAME unit/${name} COMMAND ${PATIENCE} 120 $<TARGET_FILE:${name}>)
    set_tests_properties(unit/${name} PROPERTIES TIMEOUT 3600 SKIP_RETURN_CODE 77 ENVIRONMENT "CK_FORK=no")
endfunction()
