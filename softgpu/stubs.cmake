# stubs.cmake - makes the C file with a stub for each name of a list. Run by the build:
#   cmake -DNAMES=names.txt -DREFUSE=function -DTABLE=prefix -DOUTPUT=stubs.c -P stubs.cmake
#
# Every stub is weak: a name that a library implements has its own, strong definition, and the linker takes that. A stub calls
# REFUSE with its name and a flag that is its own, and returns the answer. It takes no parameters: under the C calling convention
# of Linux (x86-64 and AArch64) a function may ignore what it is given.
file(STRINGS ${NAMES} names REGEX "^[A-Za-z_]")
set(functions "")
set(table "")
foreach(name IN LISTS names)
    string(APPEND functions "int ${name}(void);\n__attribute__((weak)) int\n${name}(void)\n{\n"
           "    static _Atomic bool said;\n    return ${REFUSE}(\"${name}\", &said);\n}\n")
    string(APPEND table "    {\"${name}\", ${name}},\n")
endforeach()
list(LENGTH names count)
file(WRITE ${OUTPUT}.new "/* Generated from ${NAMES} by stubs.cmake. */
#include <stdbool.h>
#include <stddef.h>

int ${REFUSE}(const char *name, _Atomic bool *said);

${functions}
struct stub {
    const char *name;
    int (*function)(void);
};
extern const struct stub ${TABLE}_stubs[];
extern const size_t ${TABLE}_stub_count;
const struct stub ${TABLE}_stubs[] = {
${table}};
const size_t ${TABLE}_stub_count = ${count};
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
