# errors.cmake - makes the table of error codes from a CUDA header, so that it has every code that the header has. Run
# by the build:
#   cmake -DHEADER=cuda.h -DPATTERN=regex -DPREFIX=regex -DTABLE=name -DOUTPUT=errors.c -P errors.cmake
#
# PATTERN finds an enumerator and its value (groups 1 and 2). The text of an error is that of errors.txt. A code that is
# not there has its name without PREFIX, split into words.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/errors.txt texts REGEX "^[0-9]")
foreach(line IN LISTS texts)
    string(REGEX MATCH "^([0-9]+) (.+)$" matched "${line}")
    set(text_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()

# words(NAME OUT): MemoryAllocation and MEMORY_ALLOCATION are both "memory allocation".
function(words name out)
    if(name MATCHES "[a-z]")
        string(REGEX REPLACE "([a-z0-9])([A-Z])" "\\1 \\2" name ${name})
    endif()
    string(REPLACE "_" " " name "${name}")
    string(TOLOWER "${name}" name)
    set(${out} "${name}" PARENT_SCOPE)
endfunction()

file(STRINGS ${HEADER} lines REGEX "${PATTERN}")
set(rows "")
foreach(line IN LISTS lines)
    string(REGEX MATCH "${PATTERN}" matched "${line}")
    set(name ${CMAKE_MATCH_1})
    set(value ${CMAKE_MATCH_2})
    if(DEFINED text_${value})
        set(text "${text_${value}}")
    else()
        string(REGEX REPLACE "^${PREFIX}" "" short ${name})
        words(${short} text)
    endif()
    string(APPEND rows "    {${value}, \"${name}\", \"${text}\"},\n")
endforeach()
file(WRITE ${OUTPUT}.new "/* Generated from ${HEADER} by errors.cmake. */
#include <stddef.h>

struct error_text {
    int code;
    const char *name, *text;
};
extern const struct error_text ${TABLE}[];
extern const size_t ${TABLE}_count;
const struct error_text ${TABLE}[] = {
${rows}};
const size_t ${TABLE}_count = sizeof ${TABLE} / sizeof ${TABLE}[0];
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
