# errors.cmake - makes the table of error codes from a CUDA header, so that it has every code that the header has. Run
# by the build:
#   cmake -DHEADER=cuda.h -DPATTERN=regex -DPREFIX=regex -DTABLE=name -DOUTPUT=errors.c -P errors.cmake
#
# PATTERN finds an enumerator and its value (groups 1 and 2). The text of an error is its name without PREFIX, split
# into words; what is more helpful than that stands in the variables text_... below.
set(text_SUCCESS "no error")
set(text_MemoryAllocation "out of memory")
set(text_InvalidValue "invalid argument")
set(text_INVALID_VALUE "invalid argument")
set(text_NO_BINARY_FOR_GPU "no code of this kernel for this device (build with softgpu-cc)")
set(text_NoKernelImageForDevice "no code of this kernel for this device (build with softgpu-cc)")
set(text_Success "no error")

file(STRINGS ${HEADER} lines REGEX "${PATTERN}")
set(rows "")
foreach(line IN LISTS lines)
    string(REGEX MATCH "${PATTERN}" matched "${line}")
    set(name ${CMAKE_MATCH_1})
    set(value ${CMAKE_MATCH_2})
    string(REGEX REPLACE "^${PREFIX}" "" short ${name})
    if(DEFINED text_${short})
        set(text "${text_${short}}")
    elseif(short MATCHES "[a-z]")
        string(REGEX REPLACE "([a-z0-9])([A-Z])" "\\1 \\2" text ${short})
    else()
        string(REPLACE "_" " " text ${short})
    endif()
    string(TOLOWER "${text}" lower)
    if(NOT DEFINED text_${short})
        set(text "${lower}")
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
